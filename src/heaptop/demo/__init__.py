"""Programs that come with heaptop to be examined; nothing in heaptop itself imports them."""
