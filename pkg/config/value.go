package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// setText sets v, a field of Config, from the text of a file's scalar or an
// environment variable. The error says what the text is and what it should be.
func setText(v reflect.Value, text string) error {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := parseDuration(text)
		v.SetInt(int64(d))
		return err
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Bool:
		return setBool(v, text)
	case reflect.Int:
		n, err := strconv.Atoi(text)
		v.SetInt(int64(n))
		return orWant(err, text, "a whole number")
	case reflect.Float32:
		f, err := strconv.ParseFloat(text, 32)
		v.SetFloat(f)
		return orWant(err, text, "a number")
	case reflect.Slice:
		v.Set(reflect.ValueOf(splitList(text)))
		return nil
	default:
		return fmt.Errorf("is a %s, which has no text form", v.Kind())
	}
}

func orWant(err error, text, want string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%.64q is not %s", text, want)
}

// setBool takes the words of YAML 1.2 only: what yes, on and 1 mean depends on
// who reads them.
func setBool(v reflect.Value, text string) error {
	switch strings.ToLower(text) {
	case "true":
		v.SetBool(true)
	case "false":
		v.SetBool(false)
	default:
		return fmt.Errorf("%.64q is neither true nor false", text)
	}
	return nil
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, nan := strconv.ParseFloat(text, 64); nan == nil {
		return 0, fmt.Errorf("%.64q has no unit: for seconds write %.64ss", text, text)
	}
	return 0, fmt.Errorf("%.64q is not a duration: write a number and a unit (s, m, h), such as 90s or 1h30m", text)
}

// splitList splits at commas. Empty parts are kept, so that validation sees
// them.
func splitList(text string) []string {
	parts := strings.Split(text, ",")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
	}
	return parts
}
