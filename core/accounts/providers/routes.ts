import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { compatibleName } from '#core/models/provider-shape.ts';
import { MODEL_ID } from '#core/models/providers/row.ts';

const dollars = z.number('must be US dollars per million tokens').min(0, 'must not be negative').max(100_000);
const price = z.strictObject({
  input: dollars.describe('US dollars per million tokens of input.'),
  output: dollars.describe('US dollars per million tokens of output.'),
  cache_read: dollars.optional().describe('Of input that is read from a cache. Default: the price of other input.'),
  cache_write: dollars.optional().describe('Of input that is written to a cache. Default: the price of other input.'),
});
const modelId = z.string().regex(MODEL_ID, 'must be a model id: letters, digits and . _ : / @ -');
const prices = z.record(modelId, price).describe("Prices by model id. Without one, the platform's table applies.");

const provider = z.object({
  name: z.string().describe('Name in this workspace, such as `groq`.'),
  provider: z.string().describe('What manifests, schedules and calls name: `openai-compatible:groq`.'),
  title: z.string().describe('Name in messages.'),
  base_url: z.string().nullable().describe('Address of its API. null: it has none, so it cannot be used.'),
  has_key: z.boolean().describe('Whether requests have a key. No answer ever shows it.'),
  default_model: z.string().nullable().describe('Asked if neither the caller nor the agent names a model. null: none.'),
  prices,
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
});

// Messages must not repeat a refused key.
const apiKey = z
  .string('must be a string')
  .max(4096, 'must be at most 4,096 characters')
  .transform((text) => text.trim())
  .refine(
    (text) => /^[\x21-\x7e]+$/.test(text),
    'must have no spaces, line breaks or other characters that no key has',
  );

const PROVIDERS = '/workspaces/{workspace_id}/providers';
const params = z.object({ provider: compatibleName });

/** Model providers that a workspace sets up (`docs/models.md#more-providers`). */
export const providerRoutes = defineRoutes([
  {
    operationId: 'listProviders',
    method: 'GET',
    path: PROVIDERS,
    summary: 'List the model providers that a workspace has set up, and those that are known by name',
    fn: 'secrets',
    auth: 'key',
    response: {
      200: z.object({
        providers: z.array(provider).describe('Those that the workspace has set up, with no key in them.'),
        presets: z
          .array(
            z.object({
              name: z.string().describe('Name to set it up with, such as `groq`.'),
              title: z.string(),
              base_url: z.string().nullable().describe('Its address. null: the workspace gives it.'),
            }),
          )
          .describe('Providers that are known by their name.'),
      }),
    },
  },
  {
    operationId: 'putProvider',
    audit: { request: ['base_url', 'default_model'] },
    method: 'PUT',
    path: `${PROVIDERS}/{provider}`,
    summary: 'Set up a model provider that speaks the chat completions of OpenAI, or replace it',
    fn: 'secrets',
    auth: 'key',
    role: 'owner',
    request: {
      params,
      body: z.strictObject({
        base_url: z
          .string()
          .max(2048, 'must be at most 2,048 characters')
          .optional()
          .describe('Address of its API, without `/chat/completions`. Default: the one of the preset with this name.'),
        api_key: apiKey.optional().describe('Its key. Default: requests have none.'),
        default_model: modelId.optional().describe('Asked if neither the caller nor the agent names a model.'),
        prices: prices.optional(),
      }),
    },
    response: {
      200: z.object({
        provider: provider.describe('The provider, without its key.'),
        created: z.boolean().describe('Whether it is new. Otherwise it was replaced.'),
      }),
    },
    errors: ['DOCUMENT_TOO_LARGE'],
  },
  {
    operationId: 'deleteProvider',
    method: 'DELETE',
    path: `${PROVIDERS}/{provider}`,
    summary: 'Delete a model provider with its key',
    fn: 'secrets',
    auth: 'key',
    role: 'owner',
    request: { params },
    response: { 200: z.object({ deleted: z.literal(true) }) },
    errors: ['NOT_FOUND'],
  },
]);
