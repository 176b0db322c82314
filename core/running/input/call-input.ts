import * as z from 'zod';
import { readUploads } from '#core/agents/uploads/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { mediaType, parseJson, readJson } from '#core/http/body.ts';
import { directLimit } from '#core/http/direct-limit.ts';
import { type Multipart, readMultipart } from '#core/http/multipart.ts';
import type { Deps } from '#core/ports/deps.ts';
import { LLM_PROVIDERS, type LlmProvider } from '#core/ports/llm.ts';

/** A caller's own provider, model and key for this call. The key is never stored, logged or shown. */
export interface LlmCredentials {
  readonly api_key?: string;
  readonly provider?: LlmProvider;
  readonly model?: string;
}

/** A file of the call, with its path in the agent's sandbox. */
export interface Upload {
  readonly path: string;
  readonly content: Uint8Array;
}

/** The input of a call (`contract.md` 1.1). */
export interface CallInput {
  /** The agent's stdin, also shown in the run's record. Without the reserved member `llm_credentials`. */
  readonly document: { readonly [member: string]: Json };
  readonly uploads: readonly Upload[];
  readonly isMultipart: boolean;
  readonly llmCredentials?: LlmCredentials;
}

export const UPLOAD_FOLDER = '/tmp/uploads';
/** File systems allow 255 bytes; the number in front of the name needs a few. */
const MAX_FILE_NAME_BYTES = 200;

/** Media type of a body that names an upload with the input: `{"upload_id": "upl_..."}`. */
export const UPLOADED_JSON = 'application/vnd.platform.upload+json';
const uploadedJson = z.strictObject({ upload_id: z.string() });
const uploadedFiles = z
  .array(
    z.strictObject({
      upload_id: z.string(),
      name: z.string().max(1000).default('file'),
      content_type: z.string().max(255).default('application/octet-stream'),
    }),
  )
  .max(100);

type InputDeps = Pick<Deps, 'config' | 'blobs' | 'clock'>;

/**
 * Reads the body of a call, and the uploads of `workspaceId` that it names. Throws INVALID_INPUT, NOT_FOUND,
 * UNSUPPORTED_TYPE, DOCUMENT_TOO_LARGE.
 */
export async function readCallInput(deps: InputDeps, workspaceId: string, request: Request): Promise<CallInput> {
  const limit = directLimit(deps.config, deps.config.maxCallBodyBytes);
  const type = mediaType(request);
  if (type === 'multipart/form-data') return fromMultipart(deps, workspaceId, await readMultipart(request, limit));
  let body = await readJson(request, limit);
  if (type === UPLOADED_JSON) {
    const { upload_id } = check(uploadedJson, body, 'The body');
    const [content] = await readUploads(deps, workspaceId, {
      purpose: 'call',
      ids: [upload_id],
      limit: deps.config.maxCallBodyBytes,
    });
    body = parseJson(content!, 'The upload');
  }
  const document = body === undefined ? {} : asObject(body, 'The body');
  const { rest, llmCredentials } = splitCredentials(document, 'llm_credentials');
  return { document: rest, uploads: [], isMultipart: false, llmCredentials };
}

async function fromMultipart(deps: InputDeps, workspaceId: string, form: Multipart): Promise<CallInput> {
  checkParts(form);
  const { metadata } = form.fields;
  const { rest, llmCredentials } = splitCredentials(parseMetadata(metadata), 'metadata.llm_credentials');
  const uploads = (await readFiles(deps, workspaceId, form)).map((file, index) => ({
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
    document: { files, ...(metadata !== undefined && { metadata: rest }) },
    uploads,
    isMultipart: true,
    llmCredentials,
  };
}

const PARTS = ['file', 'files', 'files[]', 'uploads', 'metadata'];

function checkParts({ files, fields }: Multipart): void {
  const names = [...files.map((file) => file.field), ...Object.keys(fields)];
  const unknown = names.find((name) => !PARTS.includes(name));
  if (unknown === undefined) return;
  throw new PlatformError(
    'INVALID_INPUT',
    `The multipart body has a part "${unknown}"; its parts are "file" or "files[]", "uploads" and "metadata".`,
  );
}

/** The files in the body, then the uploads that the part "uploads" names. */
async function readFiles(deps: InputDeps, workspaceId: string, { files, fields }: Multipart) {
  const direct = files.filter((file) => file.field !== 'metadata' && file.field !== 'uploads');
  const named =
    fields.uploads === undefined
      ? []
      : check(uploadedFiles, parsePart('uploads', fields.uploads), 'The part "uploads"');
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

function check<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const { data, error } = schema.safeParse(value);
  if (error === undefined) return data;
  const { path, message } = error.issues[0]!;
  throw new PlatformError(
    'INVALID_INPUT',
    `${what} is wrong${path.length > 0 ? ` at ${path.join('.')}` : ''}: ${message}.`,
  );
}

function asObject(value: unknown, what: string): Record<string, Json> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, Json>;
  const kind = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`;
  throw new PlatformError('INVALID_INPUT', `${what} must be a JSON object, but it is ${kind}.`);
}

/** The client's file name with only letters, digits, dot, dash and underscore. The document has the original name. */
function safeName(name: string): string {
  const base = name.split(/[/\\]/).at(-1)!.normalize('NFKD');
  const safe = base.replaceAll(/[^A-Za-z0-9._-]+/g, '_').slice(-MAX_FILE_NAME_BYTES);
  return safe === '' ? 'file' : safe;
}

function splitCredentials(document: Record<string, Json>, field: string) {
  const { llm_credentials: given, ...rest } = document;
  if (given === undefined) return { rest, llmCredentials: undefined };
  const { api_key, provider, model } = asObject(given, `"${field}"`);
  for (const [name, value] of Object.entries({ api_key, provider, model })) {
    if (value !== undefined && typeof value !== 'string') {
      throw new PlatformError('INVALID_INPUT', `"${field}.${name}" must be a string.`);
    }
  }
  if (provider !== undefined && !(LLM_PROVIDERS as readonly string[]).includes(provider as string)) {
    throw new PlatformError(
      'INVALID_INPUT',
      `"${field}.provider" is "${String(provider).slice(0, 40)}"; it may be ${LLM_PROVIDERS.join(', ')}.`,
    );
  }
  return { rest, llmCredentials: { api_key, provider, model } as LlmCredentials };
}
