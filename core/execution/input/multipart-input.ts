import * as z from 'zod';
import { readUploads } from '#core/agents/uploads/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { parseJson } from '#core/http/body.ts';
import type { Multipart } from '#core/http/multipart.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type CallInput, UPLOAD_FOLDER, type Upload } from './call-input.ts';
import { asObject, checkShape, splitCredentials } from './members.ts';

export type InputDeps = Pick<Deps, 'config' | 'blobs' | 'clock'>;

/** File systems allow 255 bytes; the number that is prepended to the name needs a few. */
const MAX_FILE_NAME_BYTES = 200;

const PARTS = ['file', 'files', 'files[]', 'uploads', 'metadata'];

const uploadedFiles = z
  .array(
    z.strictObject({
      upload_id: z.string(),
      name: z.string().max(1000).default('file'),
      content_type: z.string().max(255).default('application/octet-stream'),
    }),
  )
  .max(100);

/** Reads the input from a multipart body: its files, the uploads that it names, and its metadata. */
export async function fromMultipart(deps: InputDeps, workspaceId: string, form: Multipart): Promise<CallInput> {
  checkParts(form);
  const { metadata } = form.fields;
  const { rest, llmCredentials } = splitCredentials(parseMetadata(metadata), 'metadata.llm_credentials');
  const files = await readFiles(deps, workspaceId, form);
  return { ...inputWithFiles(files, metadata === undefined ? undefined : rest), llmCredentials };
}

/** Builds the input of a call with files, and with other members if there are any. */
export function inputWithFiles(
  given: readonly Omit<Upload, 'path'>[],
  metadata: CallInput['document'] | undefined,
): CallInput {
  const uploads = given.map((file, index) => ({
    ...file,
    path: `${UPLOAD_FOLDER}/${index}_${safeName(file.name)}`,
  }));
  const files = uploads.map(({ path, name, contentType, content }) => ({
    path,
    original_name: name,
    content_type: contentType,
    size_bytes: content.byteLength,
  }));
  return {
    document: { files, ...(metadata !== undefined && { metadata }) },
    uploads,
    isMultipart: true,
  };
}

function checkParts({ files, fields }: Multipart): void {
  const names = [...files.map((file) => file.field), ...Object.keys(fields)];
  const unknown = names.find((name) => !PARTS.includes(name));
  if (unknown === undefined) return;
  throw new PlatformError(
    'INVALID_INPUT',
    `The multipart body has a part "${unknown}"; its parts are "file" or "files[]", "uploads" and "metadata".`,
  );
}

/** Reads the files in the body, then the uploads that the part "uploads" names. */
async function readFiles(deps: InputDeps, workspaceId: string, { files, fields }: Multipart) {
  const direct = files.filter((file) => file.field !== 'metadata' && file.field !== 'uploads');
  const named =
    fields.uploads === undefined
      ? []
      : checkShape(uploadedFiles, parsePart('uploads', fields.uploads), 'The part "uploads"');
  const contents = await readUploads(deps, workspaceId, {
    purpose: 'call',
    ids: named.map((file) => file.upload_id),
    limit: deps.config.maxCallBodyBytes,
    taken: direct.reduce((sum, { content }) => sum + content.byteLength, 0),
  });
  return [
    ...direct,
    ...named.map(({ name, content_type: contentType }, index) => ({ name, contentType, content: contents[index]! })),
  ];
}

function parseMetadata(text: string | undefined): Record<string, Json> {
  return text === undefined ? {} : asObject(parsePart('metadata', text), 'The part "metadata"');
}

const parsePart = (name: string, text: string): Json => parseJson(Buffer.from(text), `The part "${name}"`);

/** Reduces the client's file name to letters, digits, dot, dash and underscore. The document has the original name. */
function safeName(name: string): string {
  const base = name.split(/[/\\]/).at(-1)!.normalize('NFKD');
  const safe = base.replaceAll(/[^A-Za-z0-9._-]+/g, '_').slice(-MAX_FILE_NAME_BYTES);
  return safe === '' ? 'file' : safe;
}
