"""n-gram models: counted, smoothed, kept in ARPA files, and asked like any other model.

`vocabulary` numbers the words, `table` holds a model and looks texts up in it, `counts`, `discounts` and `estimate`
train one, `arpa` reads and writes it, and `model` is the back end. Everything works on whole arrays: there is no Python
object for a word or an n-gram.
"""
