import { PlatformError } from '#core/base/errors.ts';
import { decodeText, type FileType, fileTypeOf } from '#core/base/file-type.ts';
import type { Json } from '#core/base/json.ts';
import { countText, sizeText } from '#core/base/size-text.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import { isObject } from '#core/manifest/field-error.ts';
import { fileProperty } from '#core/manifest/file-rules.ts';
import { placeholdersOf } from '#core/manifest/parsing/placeholders.ts';
import { type ModelFile, modelFileOf, shownName } from '#core/models/file-limits.ts';
import type { CallInput, Upload } from './call-input.ts';
import { textTypeOf } from './check-files.ts';

/** Limit for all files of a call that a model gets. Providers accept this size, in base64, in one request. */
export const MAX_FILE_BYTES = 20 * 1024 ** 2;
/** Limit for all text files among them: more than any model can read. */
const MAX_TEXT_BYTES = 5 * 1024 ** 2;
/** Fields that clients use for the text of a file, in order of preference (`docs/interface/files.md#text`). */
const TEXT_FIELDS = ['code', 'content', 'text', 'source', 'input', 'file_content', 'body'];

/** Uploaded files that are passed to a prompt's model separately from the input. */
export interface PromptFiles {
  readonly texts: readonly { readonly name: string; readonly text: string }[];
  readonly files: readonly ModelFile[];
}

/** Builds a prompt's input from a call: the members of `metadata`, and a list of the files by name, type and size. */
export function forPrompt({ document, uploads, ...input }: CallInput): CallInput {
  if (!input.isMultipart) return { ...input, document, uploads };
  const members = (document.metadata ?? {}) as CallInput['document'];
  if (uploads.length === 0) return { ...input, document: members, uploads, isMultipart: false };
  if (Object.hasOwn(members, 'files')) {
    throw new PlatformError(
      'INVALID_INPUT',
      'The part "metadata" has a member "files": in the input of a prompt, that is the list of the files.',
    );
  }
  const files = uploads.map((upload) => {
    const type = fileTypeOf(upload.content);
    return {
      original_name: upload.name,
      content_type: type.kind === 'text' ? textTypeOf(upload) : type.mediaType,
      size_bytes: upload.content.byteLength,
    };
  });
  return { ...input, document: { ...members, files }, uploads };
}

/**
 * Reads the files of a prompt's call: a text fills the field that clients use for it, if the input lacks that field;
 * all
 * others are passed separately from the input. Throws INVALID_INPUT for an empty file, DOCUMENT_TOO_LARGE, and
 * UNSUPPORTED_TYPE for types that no model reads.
 */
export function readPromptFiles(
  definition: Pick<AgentDefinition, 'input_schema' | 'prompt'>,
  { document, uploads }: CallInput,
): PromptFiles & { readonly document: CallInput['document'] } {
  const typed = uploads.map((upload) => ({ upload, type: typeForModel(upload) }));
  checkTotal(uploads, MAX_FILE_BYTES, 'The files of a prompt have');
  const textual = typed.filter(({ type }) => type.kind === 'text');
  checkTotal(
    textual.map(({ upload }) => upload),
    MAX_TEXT_BYTES,
    'The text files of a prompt have',
  );
  const texts = textual.map(({ upload, type }) => ({ name: upload.name, text: decodeText(upload.content, type) }));
  const files = typed.flatMap(
    ({ upload, type }) => modelFileOf(upload.content, type, { title: upload.name, path: upload.path }) ?? [],
  );
  const filled: Record<string, Json> = {};
  const fill = (field: string | undefined, value: Json): boolean => {
    if (field === undefined || !isEmpty(document[field])) return false;
    filled[field] = value;
    return true;
  };
  const own = fileProperty(definition.input_schema);
  const isFilled = texts.length > 0 && fill(textField(definition), texts[0]!.text);
  if (hasField(definition, 'filename')) fill('filename', uploads[0]!.name);
  if (own !== undefined && !(own.name in filled)) {
    const names = uploads.map(({ name }) => name);
    fill(own.name, own.schema.type === 'array' ? names : names.join(', '));
  }
  const { files: listed, ...members } = document;
  return { document: { ...members, ...filled, files: listed! }, texts: isFilled ? texts.slice(1) : texts, files };
}

function typeForModel({ name, content }: Upload): FileType {
  if (content.byteLength === 0) throw new PlatformError('INVALID_INPUT', `The file ${shownName(name)} is empty.`);
  const type = fileTypeOf(content);
  if (type.kind !== 'other') return type;
  throw new PlatformError(
    'UNSUPPORTED_TYPE',
    `${shownName(name)} is detected as ${type.mediaType}, which no model reads: a prompt accepts images, PDF, audio and text.`,
    { hint: 'An agent with tools or a program can read other files.' },
  );
}

function checkTotal(uploads: readonly Upload[], limit: number, begin: string): void {
  const total = uploads.reduce((sum, { content }) => sum + content.byteLength, 0);
  if (total <= limit) return;
  throw new PlatformError(
    'DOCUMENT_TOO_LARGE',
    `${begin} ${sizeText(limit)} (${bytes(limit)}) together at most; these have ${bytes(total)}.`,
  );
}

const bytes = (count: number): string => `${countText(count)} bytes`;

const isEmpty = (value: Json | undefined): boolean => value === undefined || value === null || value === '';

/** Returns the field for the text of a file. Without a schema, the placeholders of the prompt are the fields. */
function textField(definition: Pick<AgentDefinition, 'input_schema' | 'prompt'>): string | undefined {
  const own = fileProperty(definition.input_schema);
  if (own !== undefined && own.schema.type !== 'array') return own.name;
  const fields = stringFields(definition);
  const known = TEXT_FIELDS.find((name) => fields.includes(name));
  if (known !== undefined) return known;
  const others = fields.filter((name) => name !== 'filename');
  return others.length === 1 ? others[0] : undefined;
}

function stringFields({ input_schema, prompt }: Pick<AgentDefinition, 'input_schema' | 'prompt'>): readonly string[] {
  if (input_schema === null) return placeholdersOf(prompt ?? '');
  if (!isObject(input_schema.properties)) return [];
  return Object.entries(input_schema.properties).flatMap(([name, schema]) =>
    isObject(schema) && [schema.type].flat().includes('string') ? name : [],
  );
}

const hasField = (definition: Pick<AgentDefinition, 'input_schema' | 'prompt'>, name: string): boolean =>
  stringFields(definition).includes(name);
