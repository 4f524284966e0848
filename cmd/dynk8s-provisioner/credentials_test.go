package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
)

func put(t *testing.T, dir, file, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// keyID is the access key id in use now, or the error.
func keyID(t *testing.T, p aws.CredentialsProvider) string {
	t.Helper()
	c, err := p.Retrieve(t.Context())
	if err != nil {
		return "error: " + err.Error()
	}
	return c.AccessKeyID
}

func TestKeysInFilesRotate(t *testing.T) {
	for _, variable := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONFIG_FILE"} {
		t.Setenv(variable, "")
	}
	dir := t.TempDir()
	shared := filepath.Join(dir, "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", shared)
	for name, tt := range map[string]struct {
		options []func(*awsconfig.LoadOptions) error
		write   func(id string)
		remove  string
	}{
		"directory": {
			[]func(*awsconfig.LoadOptions) error{awsconfig.WithCredentialsProvider(credentialsDirectory(dir))},
			func(id string) {
				put(t, dir, "aws_access_key_id", id+"\n")
				put(t, dir, "aws_secret_access_key", "hush\n")
			},
			filepath.Join(dir, "aws_secret_access_key"),
		},
		"shared credentials file": {
			[]func(*awsconfig.LoadOptions) error{awsconfig.WithEC2IMDSClientEnableState(imds.ClientDisabled)},
			func(id string) {
				put(t, dir, "credentials", "[default]\naws_access_key_id = "+id+"\naws_secret_access_key = hush\n")
			},
			shared,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := rotating(func(ctx context.Context) (aws.Config, error) { return awsconfig.LoadDefaultConfig(ctx, tt.options...) })
				tt.write("AKIAFIRST")
				if got := keyID(t, p); got != "AKIAFIRST" {
					t.Fatalf("at first: %s", got)
				}
				tt.write("AKIASECOND")
				if got := keyID(t, p); got != "AKIAFIRST" {
					t.Errorf("at once: %s: each request would read files", got)
				}
				time.Sleep(credentialsLife + time.Second)
				if got := keyID(t, p); got != "AKIASECOND" {
					t.Errorf("after a minute: %s", got)
				}
				if err := os.Remove(tt.remove); err != nil {
					t.Fatal(err)
				}
				time.Sleep(credentialsLife + time.Second)
				if got := keyID(t, p); got != "AKIASECOND" {
					t.Errorf("while the file is gone: %s", got)
				}
				tt.write("AKIATHIRD")
				time.Sleep(credentialsLife + time.Second)
				if got := keyID(t, p); got != "AKIATHIRD" {
					t.Errorf("when it is back: %s", got)
				}
			})
		})
	}
}

func TestCredentialsDirectory(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // in the error
	}{
		"static":    {map[string]string{"aws_access_key_id": "AKIA", "aws_secret_access_key": "s"}, ""},
		"session":   {map[string]string{"aws_access_key_id": "AKIA", "aws_secret_access_key": "s", "aws_session_token": "t"}, ""},
		"no id":     {map[string]string{"aws_secret_access_key": "hush-hush"}, "aws_access_key_id"},
		"no secret": {map[string]string{"aws_access_key_id": "AKIA"}, "aws_secret_access_key"},
		"empty":     {map[string]string{"aws_access_key_id": " \n", "aws_secret_access_key": "hush-hush"}, "aws_access_key_id is empty"},
		"no folder": {nil, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range tt.files {
				put(t, dir, file, content)
			}
			if tt.files == nil {
				dir += "/missing"
			}
			c, err := credentialsDirectory(dir).Retrieve(t.Context())
			switch {
			case tt.want == "" && (err != nil || c.AccessKeyID != "AKIA" || c.SecretAccessKey != "s" || c.SessionToken != tt.files["aws_session_token"]):
				t.Errorf("%+v, %v", c.AccessKeyID, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush")):
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
