"""marshmallow 2.16.2: a schema that is made for each request stays in the registry of classes (issue 732).

Fixed in 2.16.3, which replaces one of the same name.
"""

import warnings

warnings.simplefilter("ignore")  # on newer Pythons, about what they have deprecated since

import marshmallow  # noqa: E402
from busy_backdrop import requests, serve  # noqa: E402


def dump_order(number):
    wanted = {"number": marshmallow.fields.Integer(), "note": marshmallow.fields.String()}
    schema = type("OrderSchema", (marshmallow.Schema,), wanted)  # the leak
    return schema().dump({"number": number, "note": f"note {number}"})


for number in requests(40):
    dump_order(number)
    serve(number)
