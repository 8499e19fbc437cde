"""A heap that grows slowly and visibly: a hundred Parcels more, twenty times a second, up to 100,000."""

import time

from steady import ready


class Parcel:
    def __init__(self, number):
        self.label = "parcel %d" % number


parcels = [Parcel(number) for number in range(1000)]
ready()
while True:
    time.sleep(0.05)
    if len(parcels) < 100_000:
        parcels.extend(Parcel(len(parcels) + each) for each in range(100))
