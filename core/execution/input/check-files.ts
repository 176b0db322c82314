import { PlatformError } from '#core/base/errors.ts';
import { type FileType, fileTypeOf } from '#core/base/file-type.ts';
import { type FileRules, fileRulesOf } from '#core/manifest/file-rules.ts';
import { placeholdersOf } from '#core/manifest/parsing/placeholders.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { shownName } from '#core/models/file-limits.ts';
import { either } from '#core/models/providers.ts';
import type { CallInput, Upload } from './call-input.ts';

const MAX_SHOWN_MEMBERS = 10;

/**
 * Extensions of types that are detected by content. Those of `application/zip` name the many formats that are archives.
 */
const EXTENSIONS: { readonly [mediaType: string]: readonly string[] } = {
  'image/png': ['.png'],
  'image/jpeg': ['.jpg', '.jpeg', '.jpe'],
  'image/gif': ['.gif'],
  'image/webp': ['.webp'],
  'image/heic': ['.heic', '.heif'],
  'application/pdf': ['.pdf'],
  'audio/wav': ['.wav'],
  'audio/mpeg': ['.mp3'],
  'audio/flac': ['.flac'],
  'audio/ogg': ['.ogg', '.oga', '.opus'],
  'audio/aiff': ['.aif', '.aiff'],
  'audio/aac': ['.aac'],
  'audio/mp4': ['.m4a'],
  'application/zip': ['.zip', '.docx', '.xlsx', '.pptx', '.odt', '.ods', '.odp', '.epub', '.jar'],
  'application/gzip': ['.gz', '.tgz'],
};
/** Aliases of these types. */
const ALIASES: { readonly [name: string]: string } = {
  'image/jpg': 'image/jpeg',
  'image/heif': 'image/heic',
  'audio/mp3': 'audio/mpeg',
  'audio/x-wav': 'audio/wav',
  'audio/wave': 'audio/wav',
  'audio/x-m4a': 'audio/mp4',
};

/**
 * Throws UNSUPPORTED_TYPE for files whose content the agent does not accept, and INVALID_INPUT for more files than it
 * accepts.
 */
export function checkFiles(agent: AgentVersion, { uploads }: CallInput): void {
  if (uploads.length === 0) return;
  const rules = fileRulesOf(agent.definition);
  if (!rules.accepts) throw takesNone(agent);
  if (rules.max !== null && uploads.length > rules.max) {
    throw new PlatformError(
      'INVALID_INPUT',
      `${refOf(agent)} accepts at most ${rules.max === 1 ? 'one file' : `${rules.max} files`} (max_files); this call has ${uploads.length}.`,
    );
  }
  // Without a list, the content is not inspected.
  if (rules.accept.length === 0) return;
  for (const upload of uploads) {
    const type = fileTypeOf(upload.content);
    if (isAccepted(rules, upload, type)) continue;
    throw new PlatformError(
      'UNSUPPORTED_TYPE',
      `${shownName(upload.name)} ${upload.content.byteLength === 0 ? 'is empty' : `is detected as ${type.mediaType}`}; ${refOf(agent)} accepts ${either(rules.accept)} (accept).`,
    );
  }
}

function takesNone(agent: AgentVersion): PlatformError {
  const { prompt, input_schema } = agent.definition;
  const named = placeholdersOf(prompt ?? '');
  const members = named.length > 0 ? named : Object.keys((input_schema?.properties as object | undefined) ?? {});
  const list = members.slice(0, MAX_SHOWN_MEMBERS).map((name) => `"${name.slice(0, 40)}"`);
  const example = members.length === 0 ? '' : ` with ${list.join(', ')}`;
  return new PlatformError(
    'UNSUPPORTED_TYPE',
    `${refOf(agent)} accepts no files: it expects a JSON object${example}.`,
    {
      hint: 'Send the text of the file in a member, with the content type application/json.',
    },
  );
}

const isAccepted = ({ accept }: FileRules, upload: Upload, type: FileType): boolean =>
  accept.some((entry) => (entry.startsWith('.') ? hasExtension : hasMediaType)(entry, upload, type));

/**
 * Compares by content if its type is known. Otherwise compares by name, unless the content is of another known type.
 */
function hasExtension(extension: string, { name }: Upload, { mediaType, kind }: FileType): boolean {
  const isNamed = name.toLowerCase().endsWith(extension);
  const [promised] = Object.entries(EXTENSIONS).find(([, extensions]) => extensions.includes(extension)) ?? [];
  if (promised === undefined) return isNamed && (kind === 'text' || mediaType === 'application/octet-stream');
  return promised === mediaType && (isNamed || promised !== 'application/zip');
}

/** All texts have the same type by content, so the client's type decides. */
function hasMediaType(entry: string, upload: Upload, { mediaType, kind }: FileType): boolean {
  if (entry === '*/*') return true;
  if (kind === 'text') return [mediaType, textTypeOf(upload)].some((type) => matches(entry, type));
  // By its content, a format based on ZIP is only an archive.
  if (mediaType === 'application/zip') return matches(entry, mediaType) || matches(entry, plainType(upload));
  return matches(ALIASES[entry] ?? entry, mediaType);
}

const matches = (entry: string, mediaType: string): boolean =>
  entry === mediaType || (entry.endsWith('/*') && mediaType.startsWith(entry.slice(0, -1)));

const plainType = ({ contentType }: Upload): string => contentType.split(';')[0]!.trim().toLowerCase();

/** Returns the client's type of a text file if it is plausible for text, unlike an image type. */
export function textTypeOf(upload: Upload): string {
  const said = plainType(upload);
  const isText =
    /^(text\/[\w.+-]+|application\/([\w.+-]*\+)?(json|xml|yaml|x-yaml|javascript|toml|sql|x-ndjson|csv))$/.test(said);
  return isText || said === 'image/svg+xml' ? said : 'text/plain';
}
