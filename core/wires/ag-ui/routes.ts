import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';
import { tenantHeader } from '#core/http/tenant-id.ts';
import { CALL_ERRORS } from '../call-errors.ts';

/** `RunAgentInput` of AG-UI 1.0; members that are not here are ignored (`docs/interface/ag-ui.md#input`). */
export const runAgentInput = z.looseObject({
  threadId: z
    .string()
    .regex(/^[\w.:@+/=-]{1,256}$/, 'must be 1-256 letters, digits or . : @ + / = _ -')
    .describe('The conversation: an external id of a session, or its id.'),
  runId: z.string().min(1).max(200).describe("The client's own id of this run. The same again gets the same stream."),
  messages: z
    .array(
      z.looseObject({
        id: z.string().max(200).optional().describe("The client's id of the message."),
        role: z.string().describe('`user` for what a person says.'),
        content: z.unknown().optional().describe('A text, or a list of parts of the type `text`.'),
      }),
    )
    .max(10_000)
    .describe('The conversation so far. The last one, of the user, is the input; the session has the others.'),
  forwardedProps: z
    .unknown()
    .optional()
    .describe('Its member `input` is the whole input, in place of the last message.'),
  resume: z
    .array(
      z.looseObject({
        interruptId: z.string().max(200).describe('Id of the interrupt: that of the approval.'),
        status: z
          .enum(['resolved', 'cancelled'])
          .describe('`cancelled`: a call is refused, a question is left unanswered.'),
        payload: z
          .unknown()
          .optional()
          .describe('For a call `true`, `false` or an object with `approved`; for a question the answer.'),
      }),
    )
    .max(50)
    .optional()
    .describe('What was decided about all interrupts of the run before.'),
});

export const agUiRoutes = defineRoutes([
  {
    operationId: 'runAgUi',
    method: 'POST',
    path: '/{org}/{agent}/ag-ui',
    summary: 'Talk to an agent by the protocol AG-UI, in a session that its thread names',
    fn: 'calls',
    auth: 'key',
    keyScope: 'run',
    admits: true,
    stream: true,
    request: {
      headers: z.object({
        'x-platform-tenant': tenantHeader,
        'last-event-id': z
          .string()
          .regex(/^\d{1,9}\.\d{1,9}$/, 'must be the id of an event of this stream')
          .optional()
          .describe('Id of the last event received: resumes the stream of this `runId`, and never begins a run.'),
      }),
      body: runAgentInput,
    },
    response: { 200: raw('text/event-stream') },
    errors: CALL_ERRORS,
  },
]);
