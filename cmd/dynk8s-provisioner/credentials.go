package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// credentialsLife is after how long AWS credentials that do not say when they
// expire are looked up again, so that rotated ones take effect by themselves.
const credentialsLife = time.Minute

// rotating returns credentials that are looked up anew, from the beginning, each
// time they expire. The SDK reads keys in files only once.
func rotating(load func(context.Context) (aws.Config, error)) aws.CredentialsProvider {
	return aws.NewCredentialsCache(lookup(load))
}

type lookup func(context.Context) (aws.Config, error)

// Retrieve looks the credentials up.
func (l lookup) Retrieve(ctx context.Context) (aws.Credentials, error) {
	cfg, err := l(ctx)
	if err != nil {
		return aws.Credentials{}, err
	}
	c, err := cfg.Credentials.Retrieve(ctx)
	if err == nil && !c.CanExpire {
		c.CanExpire, c.Expires = true, time.Now().Add(credentialsLife)
	}
	return c, err
}

// HandleFailToRefresh keeps credentials while no others are to be had: a file may
// be replaced just now, and whether they are still good is for AWS to say.
func (l lookup) HandleFailToRefresh(_ context.Context, before aws.Credentials, err error) (aws.Credentials, error) {
	if !before.HasKeys() {
		return aws.Credentials{}, err
	}
	before.Expires = time.Now().Add(credentialsLife)
	return before, nil
}

// credentialsDirectory is a folder with a file for each part of static AWS
// credentials, as a mounted Secret is.
type credentialsDirectory string

// Retrieve reads the files.
func (d credentialsDirectory) Retrieve(context.Context) (aws.Credentials, error) {
	c := aws.Credentials{Source: "aws.credentialsDirectory"}
	for _, part := range []struct {
		file     string
		to       *string
		required bool
	}{
		{"aws_access_key_id", &c.AccessKeyID, true},
		{"aws_secret_access_key", &c.SecretAccessKey, true},
		{"aws_session_token", &c.SessionToken, false},
	} {
		content, err := os.ReadFile(filepath.Join(string(d), part.file))
		if err != nil && (part.required || !os.IsNotExist(err)) {
			return aws.Credentials{}, fmt.Errorf("aws.credentialsDirectory: %w", err)
		}
		*part.to = strings.TrimSpace(string(content))
		if *part.to == "" && part.required {
			return aws.Credentials{}, fmt.Errorf("aws.credentialsDirectory: %s is empty", filepath.Join(string(d), part.file))
		}
	}
	return c, nil
}
