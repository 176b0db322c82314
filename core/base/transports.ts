import * as z from 'zod';
import { jsonText } from './json-text.ts';
import { withoutEnd } from './text.ts';

/** Id of an Anthropic model on Bedrock, with or without the prefix of an inference profile, or the ARN of a profile. */
const BEDROCK_MODEL =
  /^(([a-z-]+\.)?anthropic\.[\w.:-]{1,200}|arn:aws[\w-]*:bedrock:[\w-]+:\d{12}:(application-)?inference-profile\/[\w.:-]{1,200})$/;
const DEPLOYMENT = /^[\w.-]{1,64}$/;

/** Model id of the platform -> name at the transport. */
const models = (name: RegExp, problem: string) =>
  z
    .record(z.string().regex(/^[A-Za-z0-9][\w.-]{0,199}$/, 'must be a model id'), z.string().regex(name, problem))
    .refine((map) => Object.keys(map).length > 0, 'must name a model');

const bedrock = () =>
  z.strictObject({
    via: z.literal('bedrock', 'must be "bedrock"'),
    region: z.string().regex(/^[a-z]{2}(-[a-z]+)+-\d$/, 'must be a Region such as eu-central-1'),
    models: models(
      BEDROCK_MODEL,
      "must be the id of one of Anthropic's models on Bedrock, such as eu.anthropic.claude-sonnet-5-5, or the ARN of an inference profile",
    ),
  });

const azure = () =>
  z.strictObject({
    via: z.literal('azure', 'must be "azure"'),
    url: z
      .url({ protocol: /^https?$/, error: 'must be an address such as https://acme.openai.azure.com/openai/v1' })
      .transform((url) => withoutEnd(url, '/')),
    auth: z.enum(['api-key', 'bearer']).default('api-key'),
    models: models(DEPLOYMENT, 'must be the name of a deployment: letters, digits and . _ -'),
  });

/** Amazon Bedrock, with the role of the platform. */
export type BedrockTransport = z.output<ReturnType<typeof bedrock>>;
/** Azure OpenAI, with the keys of the workspaces. */
export type AzureTransport = z.output<ReturnType<typeof azure>>;

const transports = () => z.strictObject({ anthropic: bedrock().optional(), openai: azure().optional() });

/** Routes to providers other than their own APIs: `{"anthropic": {"via": "bedrock", ...}}`. */
export type Transports = z.output<ReturnType<typeof transports>>;

/** `PLATFORM_TRANSPORTS` (`docs/models.md#other-ways-to-a-provider`). Errors name each wrong member. */
export const transportsSchema = () => jsonText(transports);
