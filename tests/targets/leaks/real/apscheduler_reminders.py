"""APScheduler: each basket schedules a reminder for tomorrow, and paying does not remove it."""

import datetime

from apscheduler.schedulers.background import BackgroundScheduler
from busy_backdrop import requests, serve

scheduler = BackgroundScheduler(timezone=datetime.timezone.utc)
scheduler.start()


def remind(customer):
    return f"{customer}: your basket"


def fill_basket(number):
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    scheduler.add_job(remind, "date", run_date=tomorrow, args=[f"customer {number}"])  # the leak


for number in requests(30):
    fill_basket(number)
    serve(number)
