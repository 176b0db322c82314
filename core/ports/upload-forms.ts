/** Where a client sends a file to: a `multipart/form-data` POST of these fields, then the file as the last part, `file`. */
export interface UploadForm {
  readonly url: string;
  readonly fields: Readonly<Record<string, string>>;
}

/**
 * Forms by which whoever holds one puts one blob, without a key and past the API: for what is too large for a request.
 *
 * The form is signed: it is for this key, takes no byte more than `maxBytes`, and nothing from `expiresAt` on. It can be
 * sent again until then, which replaces the blob. Answers are 2xx, or 4xx with the reason in the body.
 */
export interface UploadForms {
  /** `expiresAt` is in epoch milliseconds. */
  create(blob: { readonly key: string; readonly maxBytes: number; readonly expiresAt: number }): Promise<UploadForm>;
}
