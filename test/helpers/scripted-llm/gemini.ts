import { FileLedger } from './files.ts';
import { geminiSchemaProblem } from './schema-rules.ts';
import { toolChoiceOf } from './tool-choice.ts';
import { type Answer, isSigned, joined, pieces, type Read, signatureOf, type Wire } from './turns.ts';

/** Google's API: `POST /models/{model}:generateContent` and `:streamGenerateContent?alt=sse`. */
export const gemini: Wire = {
  keyOf: (headers) => (typeof headers['x-goog-api-key'] === 'string' ? headers['x-goog-api-key'] : undefined),

  read(body, url): Read {
    const [, model, method] = /\/models\/([^:]+):(\w+)$/.exec(url.pathname) ?? [];
    const contents: Content[] = body.contents ?? [];
    const declared = (body.tools ?? []).flatMap(({ functionDeclarations = [] }) =>
      functionDeclarations.map(({ name }: { name: string }) => name),
    );
    const { mode, allowedFunctionNames: allowed = [] } = body.toolConfig?.functionCallingConfig ?? {};
    const chosen = mode === 'ANY' && allowed.length === 1 ? { type: 'tool', name: allowed[0] } : undefined;
    const choice = toolChoiceOf(decodeURIComponent(model ?? ''), declared, chosen);
    const texts = [textOf(body.systemInstruction), ...contents.map(textOf)];
    const files = new FileLedger();
    for (const { parts = [] } of contents) {
      for (const part of parts) {
        if (part.inlineData) addFile(files, part.inlineData, false);
        for (const { inlineData } of part.functionResponse?.parts ?? []) addFile(files, inlineData, true);
      }
    }
    return {
      files: files.files,
      model: decodeURIComponent(model ?? ''),
      stream: method === 'streamGenerateContent',
      text: joined(texts),
      lastText: texts.at(-1)!,
      maxTokens: body.generationConfig?.maxOutputTokens,
      parts: [
        body.tools ?? [],
        body.systemInstruction ?? {},
        ...contents.flatMap(({ role, parts = [] }) => parts.map((part) => ({ role, ...part }))),
      ],
      turns: contents.filter(({ role }) => role === 'model').length,
      ...(!body.generationConfig?.thinkingConfig?.includeThoughts && { hidden: 'absent' }),
      cache: { kind: 'implicit' },
      forced: choice.forced,
      problem:
        choice.problem ??
        problemOf(contents) ??
        files.problem ??
        schemaProblemOf(body.generationConfig?.responseJsonSchema),
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
    // Calls are not split, and the last chunk has the finish reason.
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
  tooManyTokens: ({ maxTokens }, most) =>
    `Unable to submit request because it has a maxOutputTokens value of ${maxTokens} but the supported range is from 1 (inclusive) to ${most + 1} (exclusive). Update the value and try again.`,
  errorFrame: (message) => data({ error: { code: 503, message, status: 'UNAVAILABLE' } }),
  refusals: {
    quota: [
      429,
      {
        error: {
          code: 429,
          message: 'You exceeded your current quota, please check your plan and billing details.',
          status: 'RESOURCE_EXHAUSTED',
          details: [
            {
              '@type': 'type.googleapis.com/google.rpc.QuotaFailure',
              violations: [{ quotaId: 'GenerateRequestsPerDayPerProjectPerModel-FreeTier', quotaValue: '250' }],
            },
            { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '11s' },
          ],
        },
      },
    ],
    spend: [402, { error: { code: 402, message: 'Your prepaid credits are used up.', status: 'FAILED_PRECONDITION' } }],
    overflow: [
      400,
      {
        error: {
          code: 400,
          message: 'The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).',
          status: 'INVALID_ARGUMENT',
        },
      },
    ],
  },
};

interface InlineData {
  readonly mimeType: string;
  readonly data: string;
}

interface Part {
  readonly inlineData?: InlineData;
  readonly text?: string;
  readonly functionCall?: { readonly name: string; readonly id?: string; readonly args: unknown };
  readonly functionResponse?: {
    readonly name: string;
    readonly id?: string;
    readonly response: unknown;
    readonly parts?: readonly { readonly inlineData: InlineData }[];
  };
  readonly thoughtSignature?: string;
}

interface Content {
  readonly role?: string;
  readonly parts?: readonly Part[];
}

const TYPES = /^(image\/(png|jpeg|webp|heic|heif)|application\/pdf|audio\/(wav|mpeg|mp3|flac|ogg|aiff|aac))$/;

function addFile(files: FileLedger, { mimeType, data }: InlineData, isResult: boolean): void {
  files.add(data, { isResult }, (file) => {
    if (!TYPES.test(mimeType)) return `Unsupported MIME type: ${mimeType}`;
    if (file?.mediaType === mimeType) return undefined;
    if (mimeType === 'application/pdf') return 'The document has no pages.';
    return `Unable to process input ${mimeType.split('/')[0]}. Please retry or report in https://developers.generativeai.google/guide/troubleshooting`;
  });
}

const schemaProblemOf = (schema: unknown): string | undefined =>
  schema === undefined ? undefined : geminiSchemaProblem(schema);

/** Calls and results match by count and name, because ids are optional here. */
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
    if (calls.length > 0 && !isSigned(calls[0]!.functionCall.name, calls[0]!.thoughtSignature))
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

function partsOf({ thinking, text, toolCalls, prefix }: Answer): (Part & { readonly thought?: boolean })[] {
  return [
    ...(thinking === undefined ? [] : [{ text: thinking, thought: true }]),
    ...(text === '' ? [] : [{ text }]),
    ...toolCalls.map(({ id, name, json }, index) => ({
      functionCall: { name, args: JSON.parse(json), id },
      ...(index === 0 && { thoughtSignature: signatureOf(name, prefix) }),
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

const FINISH_REASONS = {
  stop: 'STOP',
  tool_calls: 'STOP',
  length: 'MAX_TOKENS',
  window: 'MAX_TOKENS',
  pause: 'STOP',
  content_filter: 'SAFETY',
};

const STATUSES: Record<number, string> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
};
