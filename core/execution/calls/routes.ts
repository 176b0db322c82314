import * as z from 'zod';
import type { ErrorCode } from '#core/base/errors.ts';
import { MAX_DELAY_SECONDS } from '#core/base/time-limits.ts';
import { flag } from '#core/http/flag.ts';
import { requestTime } from '#core/http/request-time.ts';
import { defineRoutes, raw } from '#core/http/route.ts';
import { tenantHeader } from '#core/http/tenant-id.ts';
import { VERSION_TEXT, VERSION_TEXT_RULE } from '#core/manifest/channel-name.ts';
import { heldByView } from '#core/runs/queues/held-by.ts';
import { branchMembers } from './branch-members.ts';

const warning = z.object({
  code: z.enum(['LOW_CONFIDENCE', 'TRUNCATED', 'DEPRECATED_FIELD', 'VALIDATION_SKIPPED']),
  field: z.string().optional(),
  message: z.string(),
});

const usage = z.object({
  input_tokens: z.int(),
  output_tokens: z.int(),
  cache_read_tokens: z.int().optional(),
  cache_write_tokens: z.int().optional(),
});

/** A time with an offset, as readers of the OpenAPI document see it. */
const TIME = String.raw`^(19[7-9]\d|2\d{3})-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$`;

/** Media type of a body that names an upload with the input. */
export const UPLOADED_JSON = 'application/vnd.platform.upload+json';
/** The title names the type in generated clients. */
export const uploadedJson = z
  .strictObject({ upload_id: z.string().describe('The `upload_id` from `POST /uploads`.') })
  .meta({ title: 'UploadedInput' });

/** Headers of a call. */
export const CALL_HEADERS = z.object({
  'x-platform-deadline-ms': z.coerce
    .number()
    .int()
    .positive()
    .optional()
    .describe('Deadline for the answer, in epoch milliseconds.'),
  'x-platform-max-hops': z.coerce
    .number()
    .int()
    .min(0)
    .optional()
    .describe('Maximum number of levels of calls below this one.'),
  'x-platform-tenant': tenantHeader,
  'x-platform-webhook': z
    .string()
    .optional()
    .describe(
      'Public https:// URL to which the end of this run is posted, signed as alerts are. Only with `Prefer: respond-async`.',
    ),
  // Without the format, which generators of clients do not take in a header.
  'x-platform-run-at': requestTime
    .meta({ format: undefined, pattern: TIME })
    .optional()
    .describe('When the run begins: a time with an offset, at most 30 days ahead. Only with `Prefer: respond-async`.'),
  'x-platform-delay-seconds': z.coerce
    .number()
    .int()
    .min(1)
    .max(MAX_DELAY_SECONDS)
    .optional()
    .describe('The same as seconds from now. Only one of the two.'),
  'x-platform-priority': z.coerce
    .number()
    .int()
    .min(-10)
    .max(10)
    .optional()
    .describe(
      'From -10 to 10, 0 by default: among the runs that wait for their turn, what is higher begins first. Only with `Prefer: respond-async`.',
    ),
  'x-platform-skills': z.string().optional().describe('Skills to add, as `org/skill@v1`, separated by commas.'),
  'x-platform-skills-only': z.string().optional().describe('Skills instead of those of the agent.'),
  'x-platform-no-skills': z.string().optional().describe('`true` for no skills at all.'),
  'x-platform-client': z.string().optional().describe('`cli` marks the run as started by the command line.'),
  'idempotency-key': z
    .string()
    .min(1)
    .max(255)
    .optional()
    .describe('A retry with the same key gets the first answer and runs nothing, for 24 hours.'),
  accept: z.string().optional().describe('`text/event-stream` asks for the events of the run as they happen.'),
  prefer: z
    .string()
    .optional()
    .describe('`respond-async` asks for an answer at once, with the address of the run (RFC 7240).'),
});

/** Answers to a call. */
export const CALL_ANSWERS = {
  200: z.object({
    data: z.unknown().describe("The agent's output."),
    warnings: z.array(warning).optional(),
    metadata: z.object({
      request_id: z.string(),
      processing_time_ms: z.int(),
      version: z.string(),
      session_id: z.string().optional().describe('Session that the call continued.'),
      execution_time_ms: z.int(),
      usage: usage.optional(),
      stdout: z.string().optional(),
      stderr: z.string().optional(),
    }),
  }),
  202: z.object({
    run_id: z.uuid(),
    status: z.enum(['running', 'queued']),
    run_at: z.iso.datetime().optional().describe('When the run begins, if the call named a time.'),
    held_by: heldByView.optional().describe('The rule that keeps the run from beginning. Absent: none does.'),
    url: z.string().describe('Address of the run: GET it until it has ended; DELETE it to cancel the run.'),
    metadata: z.object({
      request_id: z.string(),
      version: z.string(),
      session_id: z.string().optional().describe('Session that the call continues.'),
    }),
  }),
};

/** Errors of a call. */
export const CALL_ERRORS = [
  'MISSING_INPUT_FIELDS',
  'MISSING_SECRETS',
  'LLM_KEY_REQUIRED',
  'MAX_HOPS_TOO_LOW',
  'AGENT_NOT_CALLABLE',
  'DEPENDENCY_NOT_ALLOWED',
  'DEPENDENCY_CYCLE',
  'MAX_HOPS_EXCEEDED',
  'MISSING_BILLING_ORG',
  'CONFLICT',
  'RUN_CANCELLED',
  'RATE_LIMITED',
  'BUDGET_EXCEEDED',
  'LLM_RATE_LIMITED',
  'LLM_ERROR',
  'INSUFFICIENT_CREDITS',
  'STORAGE_QUOTA_EXCEEDED',
  'NOT_FOUND',
  'UNPROCESSABLE',
  'SANDBOX_ERROR',
  'TIMEOUT',
] as const satisfies readonly ErrorCode[];

export const callRoutes = defineRoutes([
  {
    operationId: 'replayRun',
    method: 'POST',
    path: '/workspaces/{workspace_id}/runs/{run_id}/replay',
    summary: 'Replay a run, from its beginning or from one of its turns, with its own or another input and version',
    fn: 'calls',
    auth: 'key',
    keyScope: 'run',
    stream: true,
    request: {
      body: z.looseObject({
        reason: z.string().optional(),
        input: z.record(z.string(), z.unknown()).optional().describe('Replaces the input of the original run.'),
        agent_version: z
          .string()
          .regex(VERSION_TEXT, VERSION_TEXT_RULE)
          .optional()
          .describe('Replaces the version of the original run: `v3`, `latest` or a channel.'),
        ...branchMembers,
      }),
    },
    response: {
      202: z.object({
        run_id: z.uuid(),
        job_id: z.uuid(),
        replay_of_run_id: z.uuid(),
        status: z.literal('queued'),
      }),
    },
    errors: [
      'NOT_FOUND',
      'CONFLICT',
      'UNPROCESSABLE',
      'MISSING_INPUT_FIELDS',
      'MISSING_SECRETS',
      'LLM_KEY_REQUIRED',
      'RATE_LIMITED',
    ],
  },
  {
    operationId: 'callAgent',
    method: 'POST',
    path: '/{org}/{agent}/{version}/{endpoint}',
    summary: 'Call an agent and wait for its answer',
    fn: 'calls',
    auth: 'key',
    agents: true,
    admits: true,
    stream: true,
    request: {
      query: z.object({ verbose: flag.default(false).describe('Also return the output that the agent printed.') }),
      headers: CALL_HEADERS.extend({
        'x-platform-session': z
          .string()
          .min(1)
          .max(256)
          .optional()
          .describe('Session that the call continues: its id, or your own name for one, which opens it.'),
      }),
      body: {
        ...raw('application/json', 'multipart/form-data', UPLOADED_JSON),
        shapes: {
          'application/json': z.record(z.string(), z.unknown()),
          [UPLOADED_JSON]: uploadedJson,
        },
        optional: true,
      },
    },
    response: CALL_ANSWERS,
    alsoRaw: ['text/event-stream'],
    errors: CALL_ERRORS,
  },
]);
