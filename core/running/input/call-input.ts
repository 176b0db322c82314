import * as z from 'zod';
import { readUploads } from '#core/agents/uploads/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { mediaType, parseJson, readJson } from '#core/http/body.ts';
import { directLimit } from '#core/http/direct-limit.ts';
import { type Multipart, readMultipart } from '#core/http/multipart.ts';
import type { Deps } from '#core/ports/deps.ts';
import { LLM_PROVIDERS, type LlmProvider } from '#core/ports/llm.ts';

/** A caller's own provider key for this call. Never stored, logged or shown. */
export interface LlmCredentials {
  readonly api_key?: string;
  readonly provider?: LlmProvider;
  readonly model?: string;
}

/** A file of the call, under the path where the agent finds it. */
export interface Upload {
  readonly path: string;
  readonly content: Uint8Array;
}

/** What a call brings (`contract.md` 1.1), without the reserved member `llm_credentials`. */
export interface CallInput {
  /** What the agent reads on stdin, and what the run's record shows. */
  readonly document: { readonly [member: string]: Json };
  readonly uploads: readonly Upload[];
  readonly isMultipart: boolean;
  readonly llmCredentials?: LlmCredentials;
}

export const UPLOAD_FOLDER = '/tmp/uploads';
/** The file system's limit is 255 bytes; the number in front needs some. */
const MAX_FILE_NAME_BYTES = 200;

/** The media type of a body that names an upload, which is the input: `{"upload_id": "upl_..."}`. */
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
 * Reads the body, and the uploads of `workspaceId` that it names. Throws INVALID_INPUT, NOT_FOUND, UNSUPPORTED_TYPE,
 * DOCUMENT_TOO_LARGE.
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

async function fromMultipart(deps: InputDeps, workspaceId: string, { files, fields }: Multipart): Promise<CallInput> {
  const unknown = [...files.map((file) => file.field), ...Object.keys(fields)].find(
    (name) => !['file', 'files', 'files[]', 'uploads', 'metadata'].includes(name),
  );
  if (unknown !== undefined) {
    throw new PlatformError(
      'INVALID_INPUT',
      `The multipart body has a part "${unknown}"; its parts are "file" or "files[]", "uploads" and "metadata".`,
    );
  }
  const { rest, llmCredentials } = splitCredentials(parseMetadata(fields.metadata), 'metadata.llm_credentials');
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
  const uploads = [
    ...direct,
    ...named.map(({ name, content_type: contentType }, index) => ({ name, contentType, content: contents[index]! })),
  ].map((file, index) => ({ ...file, path: `${UPLOAD_FOLDER}/${index}_${safeName(file.name)}` }));
  return {
    document: {
      files: uploads.map((file) => ({
        path: file.path,
        original_name: file.name,
        content_type: file.contentType,
        size_bytes: file.content.byteLength,
      })),
      ...(fields.metadata !== undefined && { metadata: rest }),
    },
    uploads,
    isMultipart: true,
    llmCredentials,
  };
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

/** Letters, digits, dot, dash and underscore of what the client named the file; agents learn the original beside it. */
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
