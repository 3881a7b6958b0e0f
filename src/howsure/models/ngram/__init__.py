"""n-gram models: counted, smoothed, kept in ARPA files, and asked like any other model.

`training` makes one of texts, `table` holds it and looks texts up in it, `arpa` reads and writes it, and `model` is the
back end. Everything works on whole arrays: there is no Python object for a word or an n-gram.
"""
