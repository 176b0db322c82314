import { text } from 'node:stream/consumers';
import { InputError, toMarkdown } from './to-markdown.js';

let answer;
try {
  answer = toMarkdown(readInput(await text(process.stdin)));
} catch (error) {
  if (error.code !== InputError.CODE) throw error;
  answer = { error: error.message };
  process.exitCode = 1;
}
process.stdout.write(JSON.stringify(answer));

function readInput(json) {
  let input;
  try {
    input = JSON.parse(json);
  } catch (error) {
    throw new InputError(`the input cannot be read as JSON (${error.message})`);
  }
  if (typeof input?.html !== 'string' || input.html.trim() === '') {
    throw new InputError('html: must be the text of a page');
  }
  const { html, base_url: base } = input;
  const isAddress = typeof base === 'string' && URL.canParse(base) && /^https?:$/.test(new URL(base).protocol);
  if (base !== undefined && !isAddress) {
    throw new InputError('base_url: must be the http or https address of the page');
  }
  return { html, base };
}
