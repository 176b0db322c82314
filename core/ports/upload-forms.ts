/** How a client sends a file: a `multipart/form-data` POST of these fields, then the file as the last part, `file`. */
export interface UploadForm {
  readonly url: string;
  readonly fields: Readonly<Record<string, string>>;
}

/**
 * Signed upload forms, for files too large for a request. A form uploads one blob directly to the store, without an API
 * key.
 *
 * A form is valid for one blob key, at most `maxBytes`, and until `expiresAt`. Sending it again replaces the blob.
 * Answers are 2xx, or 4xx with the reason in the body.
 */
export interface UploadForms {
  /** `expiresAt`: epoch milliseconds. */
  create(blob: { readonly key: string; readonly maxBytes: number; readonly expiresAt: number }): Promise<UploadForm>;
}
