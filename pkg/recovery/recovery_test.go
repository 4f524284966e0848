package recovery

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

type secret struct{ key string }

func caught(f func(secret), s secret) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Error(r)
		}
	}()
	f(s)
	return nil
}

func TestErrorTellsWhereAndKeepsSecrets(t *testing.T) {
	t.Parallel()
	s := secret{"hunter2"}
	for name, f := range map[string]func(secret){
		"text":    func(s secret) { panic("the key is " + s.key) },
		"struct":  func(s secret) { panic(s) },
		"error":   func(s secret) { panic(errors.New(s.key)) },
		"runtime": func(s secret) { _ = []byte(s.key)[len(s.key)] },
	} {
		err := caught(f, s)
		if err == nil || strings.Contains(err.Error(), s.key) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if !strings.Contains(err.Error(), "recovery_test.go:") {
			t.Errorf("%s: the error does not say where: %v", name, err)
		}
		var fromRuntime runtime.Error
		if errors.As(err, &fromRuntime) != (name == "runtime") {
			t.Errorf("%s: wraps a runtime error wrongly: %v", name, err)
		}
	}
}
