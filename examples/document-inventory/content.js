import { extname } from 'node:path';

/** Magic bytes, file type, its usual extensions, and the function that describes it. */
const SIGNATURES = [
  ['89504e470d0a1a0a', 'image/png', ['.png'], describePng],
  ['ffd8ff', 'image/jpeg', ['.jpg', '.jpeg', '.jpe'], describeJpeg],
  ['474946383761', 'image/gif', ['.gif'], describeGif],
  ['474946383961', 'image/gif', ['.gif'], describeGif],
  ['255044462d', 'application/pdf', ['.pdf'], describePdf],
  ['504b0304', 'application/zip', ['.zip'], describeZip],
  ['504b0506', 'application/zip', ['.zip'], describeZip],
  ['1f8b08', 'application/gzip', ['.gz', '.tgz']],
  ['d0cf11e0a1b11ae1', 'application/x-ole-storage', ['.doc', '.xls', '.ppt', '.msg', '.msi']],
  ['7f454c46', 'application/x-elf', undefined],
  ['4d5a', 'application/x-msdownload', ['.exe', '.dll', '.sys']],
];
/** A zip file that contains such a file is a document. */
const ZIP_DOCUMENTS = [
  [/^word\//, 'application/vnd.openxmlformats-officedocument.wordprocessingml.document', ['.docx']],
  [/^xl\//, 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', ['.xlsx']],
  [/^ppt\//, 'application/vnd.openxmlformats-officedocument.presentationml.presentation', ['.pptx']],
  [/^META-INF\/MANIFEST\.MF$/, 'application/java-archive', ['.jar', '.war']],
];
/** Extensions that imply a binary format; files with other extensions may have any content. */
const BINARY_EXTENSIONS = new Set([
  ...SIGNATURES.flatMap(([, , extensions]) => extensions ?? []),
  ...ZIP_DOCUMENTS.flatMap(([, , extensions]) => extensions),
]);
const TEXT_EXTENSIONS = new Set(['.txt', '.csv', '.tsv', '.md', '.json', '.html', '.xml', '.yaml', '.yml', '.log']);
const DELIMITERS = [',', ';', '\t', '|'];
const END_OF_ARCHIVE = Buffer.from('504b0506', 'hex');
const MAX_NAMES = 20;
/** Parsing takes many times the memory of the text; larger texts are identified by their start and end. */
const MAX_PARSED_CHARACTERS = 8_000_000;

/**
 * Detects the type of a file from its content; `content` is its text, if it is text. `details` depend on the type;
 * `problems` are sentences about damage, or a name that does not match.
 */
export function describe(bytes, content, name) {
  const extension = extname(name).toLowerCase();
  const { type, extensions = [], details, problems = [] } = recognise(bytes, content, extension);
  const isDamaged = problems.length > 0;
  if (bytes.length === 0) problems.push('is empty');
  else if (BINARY_EXTENSIONS.has(extension) && !extensions.includes(extension) && !isDamaged) {
    problems.push(`is named ${extension}, but its content is ${type}`);
  } else if (TEXT_EXTENSIONS.has(extension) && content === undefined) {
    problems.push(`is named ${extension}, but is not text`);
  } else if (extension === '.json' && type !== 'application/json') {
    problems.push('is named .json, but is not valid JSON');
  }
  return { type, details, problems };
}

function recognise(bytes, content, extension) {
  if (bytes.length === 0) return { type: 'empty' };
  const head = bytes.subarray(0, 8).toString('hex');
  const known = SIGNATURES.find(([signature]) => head.startsWith(signature));
  // A text may start with the letters MZ.
  if (known && (content === undefined || known[0].length > 4)) {
    const [, type, extensions, describer] = known;
    return { type, extensions, ...describer?.(bytes) };
  }
  return content === undefined ? { type: 'application/octet-stream' } : describeText(content, extension);
}

const damaged = (what) => ({ problems: [`is damaged: ${what}`] });

function describePng(bytes) {
  if (bytes.length < 24 || bytes.toString('latin1', 12, 16) !== 'IHDR') return damaged('the image has no header');
  const details = { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  const isWhole = bytes.includes('IEND', Math.max(0, bytes.length - 1024), 'latin1');
  return isWhole ? { details } : { details, ...damaged('the image has no end') };
}

function describeGif(bytes) {
  if (bytes.length < 10) return damaged('the image has no header');
  return { details: { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) } };
}

/** Follows the markers to the frame, which contains the size. */
function describeJpeg(bytes) {
  for (let at = 2; at + 9 <= bytes.length && bytes[at] === 0xff; ) {
    const marker = bytes[at + 1];
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return { details: { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) } };
    // Fill bytes may precede a marker.
    at += marker === 0xff ? 1 : 2 + bytes.readUInt16BE(at + 2);
  }
  return damaged('the image has no size');
}

/** Describes a PDF without decompressing it: pages in object streams are not counted. */
function describePdf(bytes) {
  const content = bytes.toString('latin1');
  const pages = content.match(/\/Type\s*\/Page(?![A-Za-z])/g)?.length;
  const details = {
    version: /^%PDF-(\d\.\d)/.exec(content)?.[1] ?? null,
    pages: pages ?? null,
    encrypted: /\/Encrypt\s+\d+\s+\d+\s+R/.test(content),
  };
  return content.includes('%%EOF') ? { details } : { details, ...damaged('the document has no end') };
}

/** Reads only the central directory, so that nothing is decompressed. */
function describeZip(bytes) {
  const end = bytes.lastIndexOf(END_OF_ARCHIVE);
  if (end === -1 || end + 22 > bytes.length) return damaged('the archive has no table of contents');
  const entries = bytes.readUInt16LE(end + 10);
  const names = [];
  let expanded = 0;
  let encrypted = false;
  let at = bytes.readUInt32LE(end + 16);
  for (let index = 0; index < entries; index++) {
    if (at + 46 > bytes.length || bytes.readUInt32LE(at) !== 0x02014b50) {
      return damaged('the table of contents of the archive cannot be read');
    }
    const nameLength = bytes.readUInt16LE(at + 28);
    names.push(bytes.toString('utf8', at + 46, at + 46 + nameLength));
    expanded += bytes.readUInt32LE(at + 24);
    encrypted ||= (bytes.readUInt16LE(at + 8) & 1) === 1;
    at += 46 + nameLength + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
  const [, type = 'application/zip', extensions] =
    ZIP_DOCUMENTS.find(([sign]) => names.some((name) => sign.test(name))) ?? [];
  return {
    type,
    extensions: extensions ?? ['.zip'],
    details: { entries, expanded_bytes: expanded, encrypted, names: names.slice(0, MAX_NAMES) },
  };
}

function describeText(content, extension) {
  // A single number or word is valid JSON, too, but is treated as JSON only if the name says so.
  const json = (extension === '.json' || /^\s*[[{]/.test(content)) && describeJson(content);
  if (json) return json;
  if (/^\s*<(!doctype html|html[\s>])/i.test(content)) return { type: 'text/html' };
  if (/^\s*<\?xml\s/.test(content)) {
    return { type: /<svg[\s>/]/.test(content.slice(0, 2000)) ? 'image/svg+xml' : 'application/xml' };
  }
  return describeTable(content) ?? { type: 'text/plain' };
}

function describeJson(content) {
  if (content.length > MAX_PARSED_CHARACTERS) {
    return /[\]}]\s*$/.test(content.slice(-100)) ? { type: 'application/json' } : undefined;
  }
  let value;
  try {
    value = JSON.parse(content);
  } catch {
    return undefined;
  }
  const type = 'application/json';
  if (Array.isArray(value)) return { type, details: { kind: 'array', items: value.length } };
  if (typeof value !== 'object' || value === null)
    return { type, details: { kind: value === null ? 'null' : typeof value } };
  return { type, details: { kind: 'object', members: Object.keys(value).slice(0, MAX_NAMES) } };
}

/** Detects a table: the first lines have the same number of cells. */
function describeTable(content) {
  const lines = content.slice(0, 100_000).split(/\r?\n/).slice(0, 20);
  // The last line may be truncated.
  const whole = lines.slice(0, Math.max(lines.length - 1, 2)).filter((line) => line.trim() !== '');
  if (whole.length < 2) return undefined;
  for (const delimiter of DELIMITERS) {
    const widths = new Set(whole.map((line) => line.replace(/"(?:[^"]|"")*"/g, '').split(delimiter).length));
    const [width] = widths;
    if (widths.size === 1 && width > 1) return { type: 'text/csv', details: { delimiter, columns: width } };
  }
  return undefined;
}
