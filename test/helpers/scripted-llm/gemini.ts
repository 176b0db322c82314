import { type Answer, type Asked, joined, pieces, signatureOf, type Wire } from './turns.ts';

/** Google's API: `POST /models/{model}:generateContent` and `:streamGenerateContent?alt=sse`. */
export const gemini: Wire = {
  keyOf: (headers) => (typeof headers['x-goog-api-key'] === 'string' ? headers['x-goog-api-key'] : undefined),

  read(body, url): Asked {
    const [, model, method] = /\/models\/([^:]+):(\w+)$/.exec(url.pathname) ?? [];
    const contents: Content[] = body.contents ?? [];
    const texts = [textOf(body.systemInstruction), ...contents.map(textOf)];
    return {
      model: decodeURIComponent(model ?? ''),
      stream: method === 'streamGenerateContent',
      text: joined(texts),
      lastText: texts.at(-1)!,
      turns: contents.filter(({ role }) => role === 'model').length,
      problem: problemOf(contents),
    };
  },

  body: (answer) => chunk(answer, partsOf(answer), true),

  frames(answer) {
    const parts = [
      ...pieces(answer.thinking ?? '').map((text) => ({ text, thought: true })),
      ...pieces(answer.text).map((text) => ({ text })),
      ...partsOf(answer).filter((part) => 'functionCall' in part),
    ];
    const sent = parts.length > 0 ? parts : [{ text: '' }];
    // A call comes whole, and the last piece brings the reason.
    return sent.map((part, index) => data(chunk(answer, [part], index === sent.length - 1)));
  },

  error: (status, message, retryAfter) => ({
    error: {
      code: status,
      message,
      status: STATUSES[status] ?? 'INTERNAL',
      ...(retryAfter !== undefined && {
        details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${retryAfter}s` }],
      }),
    },
  }),
  errorFrame: (message) => data({ error: { code: 503, message, status: 'UNAVAILABLE' } }),
};

interface Part {
  readonly text?: string;
  readonly functionCall?: { readonly name: string; readonly id?: string; readonly args: unknown };
  readonly functionResponse?: { readonly name: string; readonly id?: string; readonly response: unknown };
  readonly thoughtSignature?: string;
}

interface Content {
  readonly role?: string;
  readonly parts?: readonly Part[];
}

/** Calls and results are matched by number and name: ids are optional here. */
function problemOf(contents: readonly Content[]): string | undefined {
  if (contents.length === 0) return 'GenerateContentRequest.contents: contents is not specified';
  let open: string[] = [];
  for (const { parts = [] } of contents) {
    const answered = parts.flatMap(({ functionResponse }) => functionResponse?.name ?? []);
    if (answered.toSorted().join() !== open.toSorted().join())
      return 'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.';
    const calls = parts.flatMap(({ functionCall, thoughtSignature }) =>
      functionCall ? [{ functionCall, thoughtSignature }] : [],
    );
    // The first call of a turn carries the signature of the thought behind it.
    if (calls.length > 0 && calls[0]!.thoughtSignature !== signatureOf(calls[0]!.functionCall.name))
      return `Function call is missing a thought_signature in functionCall parts: ${calls[0]!.functionCall.name}`;
    open = calls.map(({ functionCall }) => functionCall.name);
  }
  return open.length > 0 ? 'The function calls of the last turn have no responses.' : undefined;
}

const textOf = (content: Content | undefined): string =>
  (content?.parts ?? [])
    .map(({ text, functionResponse }) => text ?? (functionResponse ? resultText(functionResponse.response) : ''))
    .filter((text) => text !== '')
    .join('\n');

const resultText = (response: unknown): string => {
  const { content } = response as { content?: unknown };
  return typeof content === 'string' ? content : JSON.stringify(response);
};

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\r\n\r\n`;

function partsOf({ thinking, text, toolCalls }: Answer): (Part & { readonly thought?: boolean })[] {
  return [
    ...(thinking === undefined ? [] : [{ text: thinking, thought: true }]),
    ...(text === '' ? [] : [{ text }]),
    ...toolCalls.map(({ id, name, json }, index) => ({
      functionCall: { name, args: JSON.parse(json), id },
      ...(index === 0 && { thoughtSignature: signatureOf(name) }),
    })),
  ];
}

const chunk = ({ id, model, finish, usage }: Answer, parts: readonly Part[], isLast: boolean) => ({
  candidates: [
    {
      content: { parts, role: 'model' },
      ...(isLast && { finishReason: FINISH_REASONS[finish] }),
      index: 0,
    },
  ],
  usageMetadata: {
    promptTokenCount: usage.input,
    ...(isLast && { candidatesTokenCount: usage.output }),
    totalTokenCount: usage.input + (isLast ? usage.output : 0),
    ...(usage.cacheRead > 0 && { cachedContentTokenCount: usage.cacheRead }),
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: usage.input }],
  },
  modelVersion: model,
  responseId: id,
});

const FINISH_REASONS = { stop: 'STOP', tool_calls: 'STOP', length: 'MAX_TOKENS', content_filter: 'SAFETY' };

const STATUSES: Record<number, string> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
};
