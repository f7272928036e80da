// Logs in to a secured broker with franz-go, in all the ways that a file lists.
//
//	secured talk FILE            writes and reads records
//	secured refused FILE         expects errors of authentication
//	secured stay FILE SECONDS    writes and reads all the time, over several sessions of a connection
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	timeout = 30 * time.Second
	count   = 20
)

type login struct {
	Name        string `json:"name"`
	Brokers     string `json:"brokers"`
	Protocol    string `json:"protocol"`
	Mechanism   string `json:"mechanism"`
	User        string `json:"user"`
	Password    string `json:"password"`
	TokenURL    string `json:"token_url"`
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

func main() {
	log.SetFlags(0)
	text, err := os.ReadFile(os.Args[2])
	check(err)
	var logins []login
	check(json.Unmarshal(text, &logins))
	for _, login := range logins {
		switch os.Args[1] {
		case "talk":
			login.talk()
		case "refused":
			login.refused()
		case "stay":
			seconds, err := strconv.ParseFloat(os.Args[3], 64)
			check(err)
			login.stay(time.Duration(seconds * float64(time.Second)))
		default:
			log.Fatalf("unknown: %s", os.Args[1])
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func (l login) client(more ...kgo.Opt) *kgo.Client {
	options := []kgo.Opt{kgo.SeedBrokers(l.Brokers), kgo.AllowAutoTopicCreation(), kgo.RecordRetries(3)}
	if strings.HasSuffix(l.Protocol, "SSL") {
		options = append(options, kgo.DialTLSConfig(l.tls()))
	}
	if l.Mechanism != "" {
		options = append(options, kgo.SASL(l.sasl()))
	}
	client, err := kgo.NewClient(append(options, more...)...)
	check(err)
	return client
}

func (l login) tls() *tls.Config {
	roots := x509.NewCertPool()
	text, err := os.ReadFile(l.CA)
	check(err)
	if !roots.AppendCertsFromPEM(text) {
		log.Fatalf("%s has no certificate", l.CA)
	}
	config := &tls.Config{RootCAs: roots}
	if l.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(l.Certificate, l.Key)
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func (l login) sasl() sasl.Mechanism {
	switch l.Mechanism {
	case "PLAIN":
		return plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism()
	}
	return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		token, err := l.token(ctx)
		return oauth.Auth{Token: token}, err
	})
}

func (l login) token(ctx context.Context) (string, error) {
	form := strings.NewReader(url.Values{"grant_type": {"client_credentials"}}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.TokenURL, form)
	if err != nil {
		return "", err
	}
	request.SetBasicAuth(l.User, l.Password)
	request.Header.Set("content-type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var body struct {
		AccessToken string `json:"access_token"`
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("token endpoint: %s", response.Status)
	}
	err = json.NewDecoder(response.Body).Decode(&body)
	return body.AccessToken, err
}

func (l login) reader(topic string) *kgo.Client {
	return l.client(
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(50*time.Millisecond),
	)
}

func (l login) talk() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	topic := "letters-franz-" + l.Name
	writer := l.client(kgo.DefaultProduceTopic(topic))
	defer writer.Close()
	for number := 0; number < count; number++ {
		value := fmt.Sprintf("letter %d by %s", number, l.Name)
		record, err := writer.ProduceSync(ctx, kgo.StringRecord(value)).First()
		check(err)
		if record.Offset != int64(number) {
			log.Fatalf("%s: record %d has the offset %d", l.Name, number, record.Offset)
		}
	}
	reader := l.reader(topic)
	defer reader.Close()
	read := 0
	for read < count {
		fetches := reader.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			expected := fmt.Sprintf("letter %d by %s", read, l.Name)
			if string(record.Value) != expected {
				log.Fatalf("%s: read %q, not %q", l.Name, record.Value, expected)
			}
			read++
		})
	}
	fmt.Println("talked", l.Name)
}

func (l login) refused() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	client := l.client()
	defer client.Close()
	err := client.Ping(ctx)
	if err == nil {
		log.Fatalf("%s was not refused", l.Name)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		log.Fatalf("%s: no refusal in time", l.Name)
	}
	fmt.Printf("refused %s: %v\n", l.Name, err)
}

func (l login) stay(duration time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), duration+timeout)
	defer cancel()
	topic := "letters-franz-stay-" + l.Name
	writer, reader := l.client(kgo.DefaultProduceTopic(topic)), l.reader(topic)
	defer writer.Close()
	defer reader.Close()
	sent := make(chan int, 1)
	go func() {
		number := 0
		for end := time.Now().Add(duration); time.Now().Before(end); number++ {
			record, err := writer.ProduceSync(ctx, kgo.StringRecord(strconv.Itoa(number))).First()
			check(err)
			if record.Offset != int64(number) {
				log.Fatalf("%s: record %d has the offset %d", l.Name, number, record.Offset)
			}
			time.Sleep(20 * time.Millisecond)
		}
		sent <- number
	}()
	read, total := 0, -1
	for read != total {
		polling, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		fetches := reader.PollFetches(polling)
		stop()
		check(ctx.Err())
		if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			log.Fatalf("%s: %v", l.Name, err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if string(record.Value) != strconv.Itoa(read) {
				log.Fatalf("%s: read %q, not %d", l.Name, record.Value, read)
			}
			read++
		})
		select {
		case total = <-sent:
		default:
		}
	}
	fmt.Printf("stayed %s: %d records\n", l.Name, read)
}
