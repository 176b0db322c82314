import * as z from 'zod';
import { printableLine } from '#core/http/printable-line.ts';
import { defineRoutes } from '#core/http/route.ts';
import { CHANNEL_ACTIONS, STICKS } from './kinds.ts';

const time = z.iso.datetime();
const version = z.string().regex(/^(latest|v?[1-9]\d{0,4})$/, 'must be a version such as v3, or latest');
const revision = z.coerce.number().int().min(0).max(1_000_000_000);
const percent = z.number().min(0).max(100).multipleOf(0.01);
const rate = z.number().min(0).max(1);
const why = printableLine(300).optional().describe('Reason, for the history.');

const sideCalls = z.object({
  calls: z.int().describe('Calls that have ended and were not cancelled.'),
  failed: z.int().describe('How many of them failed, or ran out of time.'),
  error_rate: z.number().nullable().describe('From 0 to 1; null before the first call.'),
  scored: z.int().describe('How many of them have an online score.'),
  mean_score: z.number().nullable().describe('Mean of these scores, from 0 to 1; null before the first.'),
});
const named = z.object({
  version: z.string().describe('The version that calls ran.'),
  canary: z
    .object({
      version: z.string().describe('The version that got a part of the calls.'),
      percent: z.number().describe('That part, from 0 to 100.'),
    })
    .nullable()
    .describe('Its canary. Null: none.'),
});

export const channelView = z.object({
  name: z.string().describe('Name of the channel.'),
  reference: z.string().describe('`org/agent@channel`, which stands for the version.'),
  version: z.string().describe('The version that calls run, such as `v3`.'),
  canary: z
    .object({
      version: z.string().describe('The version that gets a part of the calls.'),
      percent: z.number().describe('Part of the calls that it gets, from 0 to 100.'),
      key: z.enum(STICKS).nullable().describe('What callers stick by. Null: the first of these that a call has.'),
      max_error_rate: z.number().describe('Error rate above which the platform takes it back. 1: never.'),
      min_calls: z.int().describe('Number of ended calls, or of scored runs, before the platform judges it.'),
      min_score: z
        .number()
        .nullable()
        .describe('Mean online score below which the platform takes it back. Null: scores do not matter.'),
      taken_back: z
        .object({
          at: time.describe('When the platform did.'),
          why: z.string().describe('How many of its calls had failed, or how low its scores were, in words.'),
          calls: z.int().describe('Number of its ended calls.'),
          failed: z.int().describe('How many of them failed.'),
          mean_score: z
            .number()
            .nullable()
            .describe('Mean of its online scores, if it was too low. Null: its calls failed too often.'),
        })
        .nullable()
        .describe('Set if the platform took it back.'),
    })
    .nullable()
    .describe('A version that gets a part of the calls. Null: none.'),
  revision: z.int().describe('One more after each change.'),
  created_at: time,
  updated_at: time,
});

const shownChannel = channelView.extend({
  calls: z
    .object({
      version: sideCalls.describe('Those that got the version of the channel.'),
      canary: sideCalls.describe('Those that got the canary.'),
    })
    .describe('Calls since the last change of the channel, by the version that they got.'),
  history: z
    .array(
      z.object({
        revision: z.int().describe('Revision that the channel has since.'),
        action: z.enum(CHANNEL_ACTIONS).describe('What was done.'),
        from: named.nullable().describe('What it named before. Null: it was created.'),
        to: named.nullable().describe('Null: it was deleted.'),
        by: z.string().nullable().describe('Id of the user. Null: the platform.'),
        by_name: z.string().nullable().describe('Name or e-mail address of the user.'),
        why: z.string().nullable().describe('The reason that was given. Null: none was.'),
        at: time.describe('When it was done.'),
      }),
    )
    .describe('The newest change first; the last 200 are kept, and 50 shown.'),
});

const CHANNELS = '/agents/{id}/channels';
const CHANNEL = `${CHANNELS}/{channel}` as const;
const row = { fn: 'agents', auth: 'key' } as const;
const step = z.object({ revision: revision.optional().describe('Only if the channel still has it.'), why });
const changes = { ...row, role: 'owner', response: { 200: channelView } } as const;
/** What audit entries say of a channel: no texts. */
const AUDITED = { version: 'version', revision: 'revision' };

/** Names of versions (`docs/interface/channels.md`). `{id}` is the id of any version of the agent. */
export const channelRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listChannels',
    method: 'GET',
    path: CHANNELS,
    summary: 'List the channels of an agent: the names of its versions',
    response: { 200: z.object({ channels: z.array(channelView).describe('By name.') }) },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'getChannel',
    method: 'GET',
    path: CHANNEL,
    summary: 'Show a channel, its calls and its history',
    response: { 200: shownChannel },
    errors: ['NOT_FOUND'],
  },
  {
    ...changes,
    operationId: 'putChannel',
    audit: { request: ['version'], response: AUDITED },
    method: 'PUT',
    path: CHANNEL,
    summary: 'Make a channel name a version, with or without a canary',
    request: {
      body: z.object({
        version: version.describe('`v3`, or `latest` for the version that it is now.'),
        canary: z
          .object({
            version: version.describe('`v4`, or `latest` for the version that it is now.'),
            percent: percent.describe('Part of the calls that it gets, from 0 to 100, with at most two decimals.'),
            key: z
              .enum(STICKS)
              .nullish()
              .describe('What a caller sticks by. Default: the tenant, else the session, else the key.'),
            max_error_rate: rate
              .nullish()
              .describe('Error rate above which the platform takes it back, from 0 to 1. Default: 0.1. 1: never.'),
            min_calls: z
              .int()
              .min(1)
              .max(1_000_000)
              .nullish()
              .describe('Number of ended calls, or of scored runs, before the platform judges it. Default: 20.'),
            min_score: rate
              .nullish()
              .describe('Mean online score below which the platform takes it back, from 0 to 1. Default: none.'),
          })
          .nullish()
          .describe('A version that gets a part of the calls. Default: none.'),
        revision: revision.optional().describe('Only if the channel still has it. 0: only if there is no channel.'),
        why,
      }),
    },
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE'],
  },
  {
    ...changes,
    operationId: 'promoteCanary',
    audit: { request: ['revision'], response: AUDITED },
    method: 'POST',
    path: `${CHANNEL}/promote`,
    summary: 'Make the canary the version of its channel',
    request: { body: step },
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE'],
  },
  {
    ...changes,
    operationId: 'rollBackChannel',
    audit: { request: ['revision'], response: AUDITED },
    method: 'POST',
    path: `${CHANNEL}/rollback`,
    summary: 'Take a channel one step back: its canary away, or back to the version before',
    request: { body: step },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    ...changes,
    operationId: 'deleteChannel',
    audit: { request: ['revision'] },
    method: 'DELETE',
    path: CHANNEL,
    summary: 'Delete a channel; its versions stay',
    request: { query: z.object({ revision: revision.optional().describe('Only if the channel still has it.') }) },
    response: { 200: z.object({ deleted: z.literal(true), name: z.string().describe('Name of the channel.') }) },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
]);
