import { describe, expect, test } from 'vitest';
import { fileTypeOf } from '#core/base/file-type.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import type { ModelFacts } from '#core/ports/model-table.ts';
import { gif, heic, jpeg, mp3, pdf, png, wav, webp } from '#test/helpers/sample-files.ts';
import { fileProblem, type ModelFile, modelFileOf } from './file-limits.ts';

const fileOf = (title: string, bytes: Buffer): ModelFile =>
  modelFileOf(bytes, fileTypeOf(bytes), { title, path: `/tmp/uploads/0_${title}` })!;

const problemOf = (provider: LlmProvider, files: readonly ModelFile[], facts: ModelFacts = {}, model = 'the-model') =>
  fileProblem({ provider, model }, facts, files);

const FILES: readonly [string, Buffer][] = [
  ['a.png', png()],
  ['b.jpg', jpeg()],
  ['c.gif', gif()],
  ['d.webp', webp()],
  ['e.heic', heic()],
  ['f.pdf', pdf()],
  ['g.wav', wav()],
  ['h.mp3', mp3()],
];

test.each<[LlmProvider, ModelFacts, string]>([
  ['anthropic', {}, 'a.png b.jpg c.gif d.webp f.pdf'],
  ['openai', {}, 'a.png b.jpg c.gif d.webp f.pdf'],
  ['openai', { inputs: ['text', 'image', 'pdf', 'audio'] }, 'a.png b.jpg c.gif d.webp f.pdf'],
  ['gemini', {}, 'a.png b.jpg d.webp e.heic f.pdf g.wav h.mp3'],
  ['ollama', {}, 'a.png b.jpg c.gif d.webp'],
  ['ollama', { inputs: ['text'] }, ''],
  ['ollama', { inputs: ['text', 'pdf', 'audio'] }, 'f.pdf g.wav h.mp3'],
])('%s with %j takes %s', (provider, facts, taken) => {
  const able = FILES.filter(([name, bytes]) => problemOf(provider, [fileOf(name, bytes)], facts) === undefined);
  expect(able.map(([name]) => name).join(' ')).toBe(taken);
});

describe('the problem names the file, the provider and its limit', () => {
  const small: ModelFacts = { window: 200_000 };
  test.each<[string, LlmProvider, ModelFile[], ModelFacts, string]>([
    ['kind', 'anthropic', [fileOf('talk.mp3', mp3())], {}, 'Anthropic takes no audio, which "talk.mp3" is.'],
    [
      'model',
      'ollama',
      [fileOf('a.png', png())],
      { inputs: ['text'] },
      'The model the-model of the local model server takes no images, which "a.png" is.',
    ],
    [
      'type',
      'gemini',
      [fileOf('a.gif', gif())],
      {},
      '"a.gif" is image/gif; Gemini takes image/png, image/jpeg, image/webp or image/heic.',
    ],
    [
      'bytes',
      'anthropic',
      [fileOf('big.png', png(10, 10, 4 * 1024 ** 2))],
      {},
      '"big.png" has 4 MB; Anthropic accepts images of at most 3.75 MB.',
    ],
    [
      'pixels',
      'anthropic',
      [fileOf('wide.png', png(8001, 1))],
      {},
      '"wide.png" has 8001x1 pixels; Anthropic accepts at most 8000 on each side.',
    ],
    [
      'pixels of many',
      'anthropic',
      Array.from({ length: 21 }, () => fileOf('a.gif', gif(2001, 5))),
      {},
      '"a.gif" has 2001x5 pixels; Anthropic accepts at most 2000 on each side in a request of more than 20 images.',
    ],
    [
      'number',
      'anthropic',
      Array.from({ length: 101 }, () => fileOf('a.gif', gif())),
      small,
      'There are 101 images; Anthropic accepts at most 100 in a request of the-model.',
    ],
    [
      'pages',
      'anthropic',
      [fileOf('book.pdf', pdf(601))],
      {},
      '"book.pdf" has 601 pages; Anthropic accepts at most 600 in a request of the-model.',
    ],
    [
      'pages of several',
      'anthropic',
      [fileOf('a.pdf', pdf(40)), fileOf('b.pdf', pdf(61))],
      small,
      '"b.pdf" and the other PDFs have 101 pages; Anthropic accepts at most 100 in a request of the-model.',
    ],
  ])('%s', (_, provider, files, facts, message) => {
    const code = /pixels|has 4 MB|at most/.test(message) ? 'DOCUMENT_TOO_LARGE' : 'UNSUPPORTED_TYPE';
    expect(problemOf(provider, files, facts)).toEqual({ code, message });
  });

  test('by Bedrock, Anthropic takes fewer pages', () => {
    const transport = { via: 'bedrock', region: 'eu-central-1', model: 'eu.anthropic.x' } as const;
    const problem = fileProblem({ provider: 'anthropic', model: 'm', transport }, {}, [fileOf('a.pdf', pdf(101))]);
    expect(problem?.message).toContain('has 101 pages; Anthropic accepts at most 100');
  });

  test('what is just within the limits has none', () => {
    const image = fileOf('a.png', png(8000, 1));
    expect(problemOf('anthropic', [image])).toBeUndefined();
    expect(
      problemOf(
        'anthropic',
        Array.from({ length: 20 }, () => image),
      ),
    ).toBeUndefined();
    expect(problemOf('anthropic', [fileOf('a.pdf', pdf(100))], small)).toBeUndefined();
  });

  test('on one line, whatever the file is called', () => {
    const { message } = problemOf('anthropic', [fileOf(`a"\n${'x'.repeat(200)}`, mp3())])!;
    expect(message).toBe(`Anthropic takes no audio, which "a\\"\\n${'x'.repeat(96)}…" is.`);
  });
});

test('a PDF has the extension that OpenAI asks for', () => {
  expect(fileOf('report', pdf()).name).toBe('0_report.pdf');
  expect(fileOf('report.PDF', pdf()).name).toBe('0_report.PDF');
});
