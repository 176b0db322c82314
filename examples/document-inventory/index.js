import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe } from './content.js';
import { findPersonalData } from './personal-data.js';
import { decode, measure } from './text.js';

let answer;
const files = readInput(await text(process.stdin));
if (typeof files === 'string') {
  answer = { error: files };
  process.exitCode = 1;
} else {
  answer = report(files.map(inspect));
}
process.stdout.write(JSON.stringify(answer));

/** Returns the uploads, or what is wrong with the input. */
function readInput(json) {
  let input;
  try {
    input = JSON.parse(json);
  } catch (error) {
    return `the input cannot be read as JSON (${error.message})`;
  }
  if (!Array.isArray(input?.files) || input.files.length === 0) {
    return 'files: upload at least one, as a part "files[]" of a multipart body';
  }
  const wrong = input.files.findIndex((file) => typeof file?.path !== 'string' || file.path === '');
  return wrong === -1 ? input.files : `files[${wrong}]: must be an object with the path of an upload`;
}

function inspect({ path, original_name: given }) {
  const name = typeof given === 'string' && given !== '' ? given : basename(path);
  let bytes;
  try {
    if (!statSync(path).isFile()) throw new Error('it is not a plain file');
    bytes = readFileSync(path);
  } catch (error) {
    return { name, type: 'unreadable', problems: [`cannot be read: ${error.message}`] };
  }
  const decoded = decode(bytes);
  const { type, details, problems } = describe(bytes, decoded?.content, name);
  return {
    name,
    type,
    size_bytes: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    ...(details && { details }),
    ...(decoded && {
      text: { encoding: decoded.encoding, ...measure(decoded.content) },
      personal_data: findPersonalData(decoded.content),
    }),
    problems,
  };
}

function report(files) {
  const byHash = new Map();
  for (const { name, sha256, size_bytes: size } of files) {
    if (size > 0) byHash.set(sha256, [...(byHash.get(sha256) ?? []), name]);
  }
  const copies = [...byHash.values()].filter((names) => names.length > 1);
  const count = (number, what) => `${number} ${what}${number === 1 ? '' : 's'}`;
  const personal = files.filter((file) => file.personal_data && file.personal_data.total > 0).length;
  const troubled = files.filter((file) => file.problems.length > 0).length;
  const parts = [
    count(files.length, 'file'),
    ...(personal > 0 ? [`${count(personal, 'file')} with what may be personal data`] : []),
    ...(copies.length > 0 ? [`${count(copies.length, 'group')} of copies`] : []),
    ...(troubled > 0 ? [`${count(troubled, 'file')} with problems`] : []),
  ];
  return { summary: parts.join(', '), files, copies };
}
