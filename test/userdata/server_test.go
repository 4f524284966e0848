//go:build linux

package userdata

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// server is the instance's whole outside: IMDS over HTTP and the endpoint over
// HTTPS. All it knows lies in a folder:
//
//	secrets/NAME   what must never be seen, one file each
//	body/NAME      what a resource answers
//	answers/NAME   how it answers, one line a request, the last for all later ones:
//	               STATUS, "hangup", "cut", "endless" or "kill", then headers NAME=VALUE
//	requests       written: one line a request
//	ports          written when it serves: IMDS's port, the endpoint's
//	pid            of the process group that "kill" kills
type server struct {
	dir string

	mu sync.Mutex // the answers and the request log
}

// resources are the paths, without the instance id, by the name of what they give.
var resources = map[string]string{
	"/latest/api/token":                         "token",
	"/latest/meta-data/instance-id":             "instance-id",
	"/latest/dynamic/instance-identity/rsa2048": "document",
	"/wireguard/config":                         "wireguard",
	"/kubeadm/kubeconfig":                       "kubeconfig",
	"/kubeadm/join":                             "join",
}

const instanceID = "i-0123456789abcdef0"

// serve makes the folder's secrets and bodies, serves and never returns but with
// an error.
func serve(dir string) error {
	s := &server{dir: dir}
	good, bad, err := writeWorld(dir)
	if err != nil {
		return err
	}
	imds, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	endpoint, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	endpoint = tls.NewListener(endpoint, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if s.next("certificate")[0] == "wrong" {
				return bad, nil
			}
			return good, nil
		},
	})
	ended := make(chan error, 2)
	go func() { ended <- http.Serve(imds, http.HandlerFunc(s.imds)) }()
	go func() { ended <- http.Serve(endpoint, http.HandlerFunc(s.endpoint)) }()
	ports := fmt.Sprintf("%d %d\n", imds.Addr().(*net.TCPAddr).Port, endpoint.Addr().(*net.TCPAddr).Port)
	partial := filepath.Join(dir, "ports.partial")
	if err := errors.Join(os.WriteFile(partial, []byte(ports), 0o600), os.Rename(partial, filepath.Join(dir, "ports"))); err != nil {
		return err
	}
	return <-ended
}

// next returns the words of the line that says how a resource answers now, and
// takes the line away unless it is the last.
func (s *server) next(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := filepath.Join(s.dir, "answers", name)
	script, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return []string{"200"}
	}
	line, rest, more := strings.Cut(strings.TrimSpace(string(script)), "\n")
	if more {
		err = errors.Join(err, os.WriteFile(path, []byte(rest), 0o600))
	}
	if err != nil {
		panic(err)
	}
	return strings.Fields(line)
}

// imds answers as IMDSv2 does.
func (s *server) imds(w http.ResponseWriter, r *http.Request) {
	name := resources[r.URL.Path]
	switch name {
	case "token":
		if r.Method != http.MethodPut || r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "" {
			s.refuse(w, r, http.StatusBadRequest)
			return
		}
	case "instance-id", "document":
		if r.Header.Get("X-Aws-Ec2-Metadata-Token") != s.read("secrets/imds-token") {
			s.refuse(w, r, http.StatusUnauthorized)
			return
		}
	default:
		s.refuse(w, r, http.StatusNotFound)
		return
	}
	s.answer(w, r, name)
}

// endpoint answers as the provisioner does: it wants the document on one line.
// It is also the API server that a host asks for its version.
func (s *server) endpoint(w http.ResponseWriter, r *http.Request) {
	path, id := filepath.Split(r.URL.Path)
	name := resources[strings.TrimSuffix(path, "/")]
	document := strings.ReplaceAll(s.read("secrets/document"), "\n", "")
	switch {
	case r.URL.Path == "/version": // of the API server, for everybody
		_, _ = io.WriteString(w, "{\n  \"major\": \"1\",\n  \"minor\": \"34\",\n  \"gitVersion\": \"v1.34.2\"\n}\n")
	case name == "" || id != instanceID:
		s.refuse(w, r, http.StatusNotFound)
	case r.Header.Get("Authorization") != "Instance-Identity "+document:
		s.refuse(w, r, http.StatusUnauthorized)
	default:
		s.answer(w, r, name)
	}
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, name string) {
	words := s.next(name)
	body := s.read("body/" + name)
	for _, header := range words[1:] {
		key, value, _ := strings.Cut(header, "=")
		w.Header().Set(key, strings.ReplaceAll(value, "_", " "))
	}
	s.note(r, words[0])
	switch words[0] {
	case "hangup":
		panic(http.ErrAbortHandler)
	case "kill":
		pid, err := strconv.Atoi(strings.TrimSpace(s.read("pid")))
		if err == nil {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // it may be gone
		}
		panic(http.ErrAbortHandler)
	case "cut":
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body[:len(body)/2]) // the client may be gone
		panic(http.ErrAbortHandler)
	case "endless":
		for range 1024 { // without a length
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1024))
		}
	case "200":
		_, _ = io.WriteString(w, body)
	default:
		status, err := strconv.Atoi(words[0])
		if err != nil {
			panic(err)
		}
		http.Error(w, http.StatusText(status), status)
	}
}

func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int) {
	s.note(r, strconv.Itoa(status))
	http.Error(w, http.StatusText(status), status)
}

func (s *server) note(r *http.Request, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(s.dir, "requests"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, writeErr := fmt.Fprintf(f, "%s %s %s\n", r.Method, r.URL.Path, answer)
	if err := errors.Join(writeErr, f.Close()); err != nil {
		panic(err)
	}
}

func (s *server) read(name string) string {
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		panic(err)
	}
	return string(data)
}

// serveMain is this program as the server: it ends when its standard input does,
// that is with whoever started it.
func serveMain(dir string) error {
	failed := make(chan error, 1)
	go func() { failed <- serve(dir) }()
	go func() {
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		failed <- nil
	}()
	return cmp.Or(<-failed, nil)
}
