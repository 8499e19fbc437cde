"""The second zoo: what is planted in each program of tests/targets/leaks/real, written before anything hunted there.

Each program uses a real package as its users do, beside more than 400,000 objects that stay, churn on other threads and
loops, and warm caches. A suspect is right where its site is, and its type or its holder: with packages several types
carry the same leak, and a person finds the cause by any of them at that line. A site is right where the guilty function
allocates; also where it called the constructor that does, and where the retainer is that function, by its cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Planted:
    """What an engineer who has found the leak would say. All fields are patterns."""

    type: str
    """The full name: that of the program's own class, or of what carries it where that is as telling."""
    site: str
    """The function that allocates, or where a package is guilty, the package's."""
    holder: str
    """Words of the retainer or its path."""
    package: str = ""
    """In the first zoo, a folder of ``.ci/target-packages``."""
    since: tuple[int, int] = (3, 8)
    """The first Python on which it leaks."""
    before: tuple[int, int] = (4, 0)
    """The first one after it on which it does not."""


VERSIONS: Final[Mapping[str, tuple[str, str]]] = {
    "aiohttp_methods": ("aiohttp-3.10.10", "aiohttp-3.10.11"),
    "sympy_lambdify": ("sympy-1.13.3", "sympy-1.14.0"),
    "marshmallow_types": ("marshmallow-2.16.2", "marshmallow-2.16.3"),
    "asgiref_locals": ("asgiref-3.2.7", "asgiref-3.2.10"),
}
"""By program: the version whose leak is documented, and one in which it is fixed: there the program is harmless."""

LEAKS: Final[Mapping[str, Planted]] = {
    "aiohttp_methods": Planted(
        r"aiohttp\.web_urldispatcher\.MatchInfoError|aiohttp\.web_exceptions\.\w+|functools\.partial|function",
        "resolve|_handle|_build_middlewares|_make_handler",
        "_build_middlewares|lru_cache",
    ),
    "sympy_lambdify": Planted("str|list|tuple", "price|lambdify", r"linecache|\.cache"),
    "marshmallow_types": Planted(
        r"marshmallow\.schema\.SchemaMeta|.*\.OrderSchema|type", "dump_order|register|__new__|__init__", r"_registry"
    ),
    "asgiref_locals": Planted(r"weakref(\.\w+)?|weakref\.ReferenceType", "work|_get_storage", r"\._context_refs"),
    "sqlalchemy_listeners": Planted(
        "function|__main__.Notes", "handle|note", r"dispatch|_key_to_collection|listeners"
    ),
    "requests_sessions": Planted(r"requests\.sessions\.Session|requests\..*|urllib3\..*", "session_for", "SESSIONS"),
    "pydantic_models": Planted(r"type|pydantic\..*|.*\.Row", "model_for", "MODELS"),
    "attrs_classes": Planted(
        "str|list|tuple", "report|make_class|_linecache_and_compile|_compile.*", r"linecache|\.cache"
    ),
    "jinja_cache": Planted(r"jinja2\.environment\.Template", "confirm", r"\.environment|\.cache"),
    "prometheus_labels": Planted(r"prometheus_client\.(metrics|values)\.\w+(\.\w+)*", "count_request", r"\._metrics"),
    "opentelemetry_memory": Planted(
        r"opentelemetry\.sdk\.trace\.(ReadableSpan|_?Span)|opentelemetry\..*", "handle", r"_finished_spans"
    ),
    "loguru_sinks": Planted(r"__main__\.JobLog|loguru\._handler\.Handler", "run_job", r"\.handlers"),
    "structlog_capture": Planted("dict", "handle", r"\.entries"),
    "networkx_visits": Planted("dict|str", "record_visit", r"\._(adj|node)|\.visits"),
    "cachetools_quotes": Planted(r"__main__\.Quote", "quote", r"cache"),
    "pyee_listeners": Planted(r"function|__main__\.Client", "connect", r"\._events"),
    "kombu_audit": Planted("dict|str", "publish_order", r"queue"),
    "tornado_pings": Planted(
        r"tornado\.ioloop\.PeriodicCallback|__main__\.Connection|asyncio\.events\.TimerHandle",
        "open_connection",
        r"_scheduled|_timeout",
    ),
    "twisted_calls": Planted(r"twisted\.internet\.defer\.Deferred", "call", r"\.pending"),
    "django_receivers": Planted("function|list", "checkout", r"\.receivers"),
    "reactivex_views": Planted(r"__main__\.View|reactivex\..*", "open_view", r"\.observers"),
    "watchdog_uploads": Planted(r"__main__\.UploadHandler", "watch_upload", r"\._handlers"),
    "apscheduler_reminders": Planted(r"apscheduler\.job\.Job", "fill_basket", r"\._jobs"),
    "aiodataloader_users": Planted(r"__main__\.User|_asyncio\.Future", "read_users|handle", r"\._cache|cache_map"),
    "lxml_headlines": Planted(r"lxml\.etree\._?\w+", "read_feed", "HEADLINES"),
    "bs4_titles": Planted(r"bs4\..*", "read_page", "TITLES"),
    "pillow_undo": Planted(r"PIL\..*|ImagingCore", "edit", r"\.undo"),
    "sortedcontainers_book": Planted(r"__main__\.Order", "place", r"\.book|\._lists"),
    "traitlets_panels": Planted(r"__main__\.Panel|method", "open_panel", r"\._trait_notifiers"),
    "transitions_orders": Planted(r"__main__\.Order|functools\.partial", "take_order", r"\.models"),
    "paho_readings": Planted(r"paho\.mqtt\.client\.MQTTMessage\w*", "publish_reading", r"\._out_messages"),
    "simpy_visitors": Planted(r"__main__\.Visitor|simpy\..*|generator", "arrive|visit", r"\.callbacks"),
    "pluggy_plugins": Planted(r"__main__\.RequestPlugin|pluggy\..*", "handle", r"_name2plugin|_hookimpls|plugins"),
    "zope_adapters": Planted(
        r"__main__\.Printer|zope\.interface\..*", "add_printer", r"_adapter_registrations|adapters"
    ),
}

HARMLESS: Final = (
    "cachetools_filling",
    "urllib3_pools",
    "sqlalchemy_statements",
    "opentelemetry_batches",
    "jinja_templates",
    "django_queries",
    "lazy_imports",
    "openpyxl_report",
    "sqlalchemy_batches",
    "regex_patterns",
    "sortedcontainers_window",
    "kombu_worker",
)
