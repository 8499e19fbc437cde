"""Programs that come with heaptop to be looked at; nothing in heaptop itself imports them."""
