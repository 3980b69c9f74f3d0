package telegramtest

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
)

func (a args) readMultipart(body []byte, boundary string) error {
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		if part.FileName() != "" {
			a.files[part.FormName()] = upload{Name: part.FileName(), Content: content}
			continue
		}
		a.values[part.FormName()] = string(content)
	}
}
