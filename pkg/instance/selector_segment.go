package instance

import (
	"strings"
	"unicode/utf8"
)

// anyCharacter stands for a question mark; no text holds it.
const anyCharacter rune = -1

// segment is a part of a pattern without stars. It matches texts of exactly
// as many characters as it has.
type segment struct {
	characters []rune
	// text is the same as characters, for the standard library's fast
	// searches. It means nothing when wild.
	text string
	// wild is set when characters holds anyCharacter.
	wild bool
}

func (s *segment) add(r rune, wild bool) {
	if wild {
		s.wild = true
		s.characters = append(s.characters, anyCharacter)
		return
	}
	s.text += string(r)
	s.characters = append(s.characters, r)
}

// cutPrefix returns what follows the segment at the beginning of value.
func (s *segment) cutPrefix(value string) (string, bool) {
	if !s.wild {
		return strings.CutPrefix(value, s.text)
	}
	for _, want := range s.characters {
		r, size := utf8.DecodeRuneInString(value)
		if size == 0 || want != anyCharacter && want != r {
			return "", false
		}
		value = value[size:]
	}
	return value, true
}

// cutSuffix returns what precedes the segment at the end of value.
func (s *segment) cutSuffix(value string) (string, bool) {
	if !s.wild {
		return strings.CutSuffix(value, s.text)
	}
	start := len(value)
	for range s.characters {
		_, size := utf8.DecodeLastRuneInString(value[:start])
		if size == 0 {
			return "", false
		}
		start -= size
	}
	_, ok := s.cutPrefix(value[start:])
	return value[:start], ok
}

// cutFirst returns what follows the first place in value where the segment
// matches.
func (s *segment) cutFirst(value string) (string, bool) {
	if !s.wild {
		_, rest, ok := strings.Cut(value, s.text)
		return rest, ok
	}
	for value != "" {
		if rest, ok := s.cutPrefix(value); ok {
			return rest, true
		}
		_, size := utf8.DecodeRuneInString(value)
		value = value[size:]
	}
	return "", false
}
