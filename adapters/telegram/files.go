package telegram

import (
	"bytes"
	"context"
	"io"
	"mime"
	"path/filepath"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
)

// The sizes of what a bot may send (https://core.telegram.org/bots/api#sending-files).
const (
	uploadLimit = 50 << 20
	photoLimit  = 10 << 20
)

// Fetch opens a file that came with a message.
func (a *Adapter) Fetch(ctx context.Context, _ office.Address, at store.Attachment) (io.ReadCloser, error) {
	var file *models.File
	err := a.call(ctx, "getfile", func(ctx context.Context) (err error) {
		file, err = a.bot.GetFile(ctx, &bot.GetFileParams{FileID: at.Source})
		return err
	})
	if err != nil {
		return nil, err
	}
	if file.FilePath == "" {
		return nil, fault.New(fault.TooLarge, "the file is larger than 20 MB, which is what Telegram hands to bots")
	}
	failpoint.Hit("telegram.download.before")
	body, err := a.transport.download(ctx, file.FilePath)
	failpoint.Hit("telegram.download.after")
	return body, err
}

// Upload sends a file: a picture that Telegram can show as one, anything else as a document.
func (a *Adapter) Upload(ctx context.Context, m adapters.Outgoing, u adapters.Upload) (string, error) {
	if u.Size > uploadLimit {
		return "", fault.New(fault.TooLarge, "%s is larger than 50 MB, which is what bots may send", u.Name)
	}
	to, err := a.aim(ctx, m)
	if err != nil {
		return "", err
	}
	if err := a.limit(ctx, to.chat, rate.Final); err != nil {
		return "", err
	}
	// It is kept whole: a call that is repeated, to a supergroup or as a document, sends it from its beginning.
	content, err := io.ReadAll(io.LimitReader(u.Content, uploadLimit+1))
	switch {
	case err != nil:
		return "", fault.Wrap(fault.Unavailable, err, "%s cannot be read", u.Name)
	case len(content) > uploadLimit:
		return "", fault.New(fault.TooLarge, "%s is larger than 50 MB, which is what bots may send", u.Name)
	case len(content) == 0:
		return "", fault.New(fault.Invalid, "%s is empty, and Telegram takes no empty file", u.Name)
	}
	id, err := "", error(nil)
	if isPicture(u.Name) && len(content) <= photoLimit {
		id, err = a.upload(ctx, to, u.Name, content, a.sendPhoto)
	}
	if id == "" && (err == nil || fault.CodeOf(err) == fault.Invalid) { // no picture, or none that Telegram can show
		id, err = a.upload(ctx, to, u.Name, content, a.sendDocument)
	}
	return id, err
}

func isPicture(name string) bool {
	switch kind := mime.TypeByExtension(filepath.Ext(name)); kind {
	case "image/png", "image/jpeg":
		return true
	}
	return false
}

func (a *Adapter) upload(ctx context.Context, to target, name string, content []byte,
	send func(context.Context, target, *models.InputFileUpload) (*models.Message, error)) (string, error) {
	var sent *models.Message
	err := a.follow(ctx, &to, func() (err error) {
		sent, err = send(ctx, to, &models.InputFileUpload{Filename: name, Data: bytes.NewReader(content)})
		return err
	})
	if err != nil {
		return "", err
	}
	return ref{to.chat, sent.ID}.id(to.first), nil
}

func (a *Adapter) sendPhoto(ctx context.Context, to target, file *models.InputFileUpload) (*models.Message, error) {
	failpoint.Hit("telegram.sendphoto.before")
	sent, err := a.bot.SendPhoto(ctx, &bot.SendPhotoParams{
		ChatID: to.chat, MessageThreadID: to.topic, ReplyParameters: to.replyParameters(), Photo: file,
	})
	failpoint.Hit("telegram.sendphoto.after")
	return sent, err
}

func (a *Adapter) sendDocument(ctx context.Context, to target, file *models.InputFileUpload) (*models.Message, error) {
	failpoint.Hit("telegram.senddocument.before")
	sent, err := a.bot.SendDocument(ctx, &bot.SendDocumentParams{
		ChatID: to.chat, MessageThreadID: to.topic, ReplyParameters: to.replyParameters(), Document: file,
	})
	failpoint.Hit("telegram.senddocument.after")
	return sent, err
}
