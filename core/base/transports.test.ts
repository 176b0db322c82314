import { expect, test } from 'vitest';
import { parseConfig } from './config.ts';

const parse = (value: unknown) =>
  parseConfig({ PLATFORM_TRANSPORTS: typeof value === 'string' ? value : JSON.stringify(value) }).transports;

const BEDROCK = {
  via: 'bedrock',
  region: 'eu-central-1',
  models: { 'claude-sonnet-5-5': 'eu.anthropic.claude-sonnet-5-5' },
};
const AZURE = {
  via: 'azure',
  url: 'https://acme.openai.azure.com/openai/v1/',
  models: { 'gpt-6.2-sol': 'our-sol_2' },
};

test('there are none unless the operator sets them', () => {
  expect(parseConfig({}).transports).toBeUndefined();
});

test('Bedrock and Azure, with their models', () => {
  expect(parse({ anthropic: BEDROCK, openai: AZURE })).toEqual({
    anthropic: BEDROCK,
    openai: { ...AZURE, url: 'https://acme.openai.azure.com/openai/v1', auth: 'api-key' },
  });
});

test.each([
  'anthropic.claude-haiku-4-5-20251001-v1:0',
  'global.anthropic.claude-opus-5-5',
  'us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0',
  'arn:aws:bedrock:eu-central-1:111122223333:application-inference-profile/abc123',
])('%s is a model on Bedrock', (id) => {
  expect(parse({ anthropic: { ...BEDROCK, models: { 'claude-x': id } } })!.anthropic!.models).toEqual({
    'claude-x': id,
  });
});

test.each<[string, unknown, RegExp]>([
  ['no JSON', '{', /PLATFORM_TRANSPORTS="\{": .*expected object/],
  ['an unknown provider', { mistral: BEDROCK }, /Unrecognized key: "mistral"/],
  ['a provider without transports', { gemini: BEDROCK }, /Unrecognized key: "gemini"/],
  ['another transport', { anthropic: AZURE }, /anthropic\.via: must be "bedrock"/],
  ['an unknown member', { anthropic: { ...BEDROCK, regoin: 'x' } }, /anthropic: Unrecognized key: "regoin"/],
  ['no Region', { anthropic: { ...BEDROCK, region: 'Frankfurt' } }, /anthropic\.region: must be a Region such as/],
  ['no model', { anthropic: { ...BEDROCK, models: {} } }, /anthropic\.models: must name a model/],
  [
    "a name that is not Bedrock's",
    { anthropic: { ...BEDROCK, models: { 'claude-sonnet-5-5': 'claude-sonnet-5-5' } } },
    /anthropic\.models\.claude-sonnet-5-5: must be the id of one of Anthropic's models on Bedrock/,
  ],
  [
    'another vendor on Bedrock',
    { anthropic: { ...BEDROCK, models: { 'claude-x': 'eu.amazon.nova-pro-v1:0' } } },
    /models\.claude-x: must be/,
  ],
  ['a wildcard', { anthropic: { ...BEDROCK, models: { 'claude-x': 'anthropic.*' } } }, /models\.claude-x: must be/],
  ['no address', { openai: { ...AZURE, url: 'acme' } }, /openai\.url: must be an address such as/],
  ['no deployment', { openai: { ...AZURE, models: { 'gpt-6': 'a/b' } } }, /openai\.models\.gpt-6: must be the name/],
])('%s is refused at the start', (_, value, message) => {
  expect(() => parse(value)).toThrow(message);
});
