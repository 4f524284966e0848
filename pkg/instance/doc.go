// Package instance holds the nouns the whole program speaks of: an EC2
// instance, its id, its state, and the selector that decides by its tags
// whether it is ours. It imports nothing of ours and speaks to nobody.
package instance
