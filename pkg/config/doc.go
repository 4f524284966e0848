// Package config loads the program's one configuration file, with environment
// variables and flags over it, checks it, and watches it for changes.
//
// What comes out is plain structs; only cmd imports this package and hands
// each part to the package it is for.
package config
