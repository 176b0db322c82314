import { expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import { readInput, readMessages } from './messages.ts';

const user = (content: Json) => ({ role: 'user', content });
const assistant = (content: Json) => ({ role: 'assistant', content });
const PNG = `data:image/png;base64,${Buffer.from('png').toString('base64')}`;

test('the messages after the last answer are the text, and those before are turns', () => {
  const read = readMessages([
    { role: 'system', content: 'Be brief.' },
    assistant('Welcome.'),
    user('One'),
    user([{ type: 'text', text: 'Two' }]),
    assistant('A'),
    assistant(null),
    { role: 'tool', content: 'ignored', tool_call_id: 'x' },
    assistant('B'),
    { role: 'developer', content: 'In French.' },
    user('Three'),
    user('Four'),
  ]);
  expect(read).toEqual({
    instructions: 'Be brief.\n\nIn French.',
    earlier: [
      { text: '(The assistant begins.)', answer: 'Welcome.' },
      { text: 'One\n\nTwo', answer: 'A\n\nB' },
    ],
    text: 'Three\n\nFour',
    files: [],
  });
});

test('an input is a text, or items of which only messages count', () => {
  expect(readInput('Hi', 'Be kind.')).toEqual({ instructions: 'Be kind.', earlier: [], text: 'Hi', files: [] });
  const items: Json[] = [
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
    { type: 'reasoning', summary: [] },
    { type: 'function_call', name: 'f', call_id: 'c', arguments: '{}' },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hello' }] },
    user('Bye'),
  ];
  expect(readInput(items, null)).toMatchObject({ earlier: [{ text: 'Hi', answer: 'Hello' }], text: 'Bye' });
});

test('files are those of the last messages; earlier ones are named', () => {
  const named = { type: 'input_file', filename: 'a.pdf', file_data: Buffer.from('%PDF').toString('base64') };
  const image = { type: 'image_url', image_url: { url: PNG } };
  const read = readMessages([user([named]), assistant('Seen.'), user([image])]);
  expect(read.earlier).toEqual([{ text: '[File: a.pdf]', answer: 'Seen.' }]);
  expect(read.text).toBe('');
  expect(read.files).toEqual([{ name: 'image-1.png', contentType: 'image/png', content: Buffer.from('png') }]);
  const sound = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } };
  expect(readMessages([user([sound])]).files[0]).toMatchObject({ name: 'audio-1.mp3', contentType: 'audio/mpeg' });
  const chatFile = { type: 'file', file: { filename: 'b.txt', file_data: 'data:text/plain;base64,aGk=' } };
  expect(readMessages([user([chatFile])]).files[0]).toMatchObject({ name: 'b.txt', contentType: 'text/plain' });
});

test.each<[string, Json, string]>([
  ['no list', 'hi', 'messages: must be an array'],
  ['an empty list', [], 'messages: must be an array'],
  ['too many', Array(5001).fill(user('x')), 'has 5001 messages'],
  ['no object', ['hi'], 'messages[0]: must be an object'],
  ['an unknown role', [{ role: 'boss', content: 'x' }], 'messages[0].role'],
  ['no text', [user(null)], 'messages[0].content: must be a text or an array'],
  ['an unknown part', [user([{ type: 'video' }])], 'messages[0].content[0].type'],
  ['no message of the user', [assistant('hi')], 'must end with a message of the user'],
  ['an address', [user([{ type: 'image_url', image_url: { url: 'http://169.254.169.254/' } }])], 'data: URL'],
  ['a file by its id', [user([{ type: 'input_file', file_id: 'file-1' }])], 'no stored files'],
  ['no base64', [user([{ type: 'image_url', image_url: { url: 'data:image/png,abc' } }])], 'base64'],
  ['damaged base64', [user([{ type: 'image_url', image_url: { url: 'data:image/png;base64,*' } }])], 'base64'],
  ['too many files', [user(Array(101).fill({ type: 'input_image', image_url: PNG }))], 'has 101 files'],
])('%s is refused, with its place', (_, messages, text) => {
  expect(() => readMessages(messages)).toThrow(
    expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining(text) }),
  );
});
