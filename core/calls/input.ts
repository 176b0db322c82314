import { PlatformError } from '../errors.ts';
import { mediaType, parseJson, readJson } from '../http/body.ts';
import { type Multipart, readMultipart } from '../http/multipart.ts';
import { LLM_PROVIDERS, type LlmProvider } from '../ports/llm.ts';
import type { Json } from '../ports/table.ts';
import type { Upload } from './code-runtime.ts';

/** A caller's own provider key for this call. Never stored, logged or shown. */
export interface LlmCredentials {
  readonly api_key?: string;
  readonly provider?: LlmProvider;
  readonly model?: string;
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

/** Reads the body. Throws INVALID_INPUT, UNSUPPORTED_TYPE, DOCUMENT_TOO_LARGE. */
export async function readCallInput(request: Request, maxBytes: number): Promise<CallInput> {
  if (mediaType(request) === 'multipart/form-data') return fromMultipart(await readMultipart(request, maxBytes));
  const body = await readJson(request, maxBytes);
  const document = body === undefined ? {} : asObject(body, 'The body');
  const { rest, llmCredentials } = splitCredentials(document, 'llm_credentials');
  return { document: rest, uploads: [], isMultipart: false, llmCredentials };
}

function fromMultipart({ files, fields }: Multipart): CallInput {
  const unknown = [...files.map((file) => file.field), ...Object.keys(fields)].find(
    (name) => !['file', 'files', 'files[]', 'metadata'].includes(name),
  );
  if (unknown !== undefined) {
    throw new PlatformError(
      'INVALID_INPUT',
      `The multipart body has a part "${unknown}"; its parts are "file" or "files[]" and "metadata".`,
    );
  }
  const { rest, llmCredentials } = splitCredentials(parseMetadata(fields.metadata), 'metadata.llm_credentials');
  const uploads = files
    .filter((file) => file.field !== 'metadata')
    .map((file, index) => ({ ...file, path: `${UPLOAD_FOLDER}/${index}_${safeName(file.name)}` }));
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
  const what = 'The part "metadata"';
  return text === undefined ? {} : asObject(parseJson(Buffer.from(text), what), what);
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
