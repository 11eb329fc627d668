"""The live rig: a real Gateway, a real Host, a model that says what the test wants, a page in a real browser.

model      the scripted model that the Gateway asks
gateway    a Gateway process, its restarts, its calls
host       an Open WebUI process, its API, its socket
page       its page in Chromium
"""
