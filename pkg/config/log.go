package config

import "log/slog"

// Log is about the program's own log.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level"`
	// Format is json or text.
	Format string `yaml:"format"`
}

// logLevels are the values of log.level.
var logLevels = []string{"debug", "info", "warn", "error"}

// logFormats are the values of log.format.
var logFormats = []string{"json", "text"}

// SlogLevel returns the level for package slog. Info stands for an unknown
// one, which Load lets nobody have.
func (l Log) SlogLevel() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return slog.LevelInfo
	}
	return level
}
