import type { Client } from '#core/api/client.ts';
import type { UploadForm } from '#core/ports/upload-forms.ts';

/** Returns a completed upload form. */
export function filledForm({ fields }: UploadForm, content: string | Uint8Array): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  form.set('file', new Blob([content as Uint8Array<ArrayBuffer>]), 'file');
  return form;
}

/** Sends a form and returns the status. */
export async function postForm(url: string, body: RequestInit['body']): Promise<number> {
  const response = await fetch(url, { method: 'POST', body });
  await response.arrayBuffer();
  return response.status;
}

/** Uploads `content` and returns its id. */
export async function upload(
  client: Client,
  content: string | Uint8Array,
  purpose: 'call' | 'bundle' = 'call',
): Promise<string> {
  const form = await client.createUpload({ body: { purpose } });
  const status = await postForm(form.url, filledForm(form, content));
  if (status !== 204) throw new Error(`the upload was answered ${status}`);
  return form.upload_id;
}
