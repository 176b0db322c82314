import { hash } from 'node:crypto';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { fileRulesOf } from '#core/manifest/file-rules.ts';
import { fullNameOf, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import { type CardSignature, cardSignature, publishedKeyOf } from './card-signature.ts';
import { A2aError } from './errors.ts';
import { type Asking, findShown } from './served.ts';

export const PROTOCOL_VERSION = '1.0';
const KEY_SCHEME = 'platformKey';
const PUBLIC_SECONDS = 300;

export type CardDeps = Pick<Deps, 'config'> & Pick<AllDeps, 'cardKey'>;

/** Returns the card of an agent that can be talked to, without signatures. Throws UnsupportedOperation for a skill and for a service. */
function cardOf({ baseUrl = '' }: Pick<Deps['config'], 'baseUrl'>, agent: AgentVersion, params: Asking['params']) {
  const { description, run_mode, default_endpoint, output_schema, input_schema } = agent.definition;
  const name = fullNameOf(agent);
  if (!engineTraits(agent).isRun || run_mode === 'always_on') {
    throw new A2aError('UnsupportedOperation', `${name} is not started by messages: it is a skill or always on.`);
  }
  // A client that found the card of a version or channel calls that one.
  const at = params.agent.slice(agent.name.length);
  const url = `${baseUrl}/a2a/${name}${at}`;
  const outputModes = output_schema === null ? ['text/plain', 'application/json'] : ['application/json'];
  const files = fileRulesOf(agent.definition);
  const fileModes = files.accepts ? files.accept.filter((entry) => entry.includes('/')) : [];
  const inputModes = ['text/plain', 'application/json', ...fileModes];
  return {
    name: agent.name,
    description: description || agent.name,
    version: versionName(agent.version),
    provider: { organization: agent.orgSlug, url: baseUrl },
    supportedInterfaces: [
      { url, protocolBinding: 'JSONRPC', protocolVersion: PROTOCOL_VERSION },
      { url, protocolBinding: 'HTTP+JSON', protocolVersion: PROTOCOL_VERSION },
    ],
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
    defaultInputModes: inputModes,
    defaultOutputModes: outputModes,
    skills: [
      {
        id: default_endpoint,
        name: agent.name,
        description: `${description || agent.name}${schemaText(input_schema)}`,
        tags: [agent.definition.type],
      },
    ],
    securitySchemes: {
      [KEY_SCHEME]: {
        httpAuthSecurityScheme: { scheme: 'bearer', description: 'An API key of a workspace.' },
      },
    },
    // What a key must be allowed to do.
    securityRequirements: [{ schemes: { [KEY_SCHEME]: { list: ['run'] } } }],
  };
}

/** The protocol has no member for the schema of an input, so models read it in the description. */
const MAX_SCHEMA_CHARACTERS = 4000;

function schemaText(schema: AgentVersion['definition']['input_schema']): string {
  const text = schema === null ? '' : JSON.stringify(schema);
  if (text === '' || text.length > MAX_SCHEMA_CHARACTERS) return '';
  return `\n\nInput, as a part "data" or as a text for its only member: ${text}`;
}

type Card = ReturnType<typeof cardOf> & { readonly signatures?: readonly CardSignature[] };

/** Returns the card, with a signature if the operator has a key for them. Throws as {@link cardOf} does. */
export async function signedCardOf(
  { config, cardKey }: CardDeps,
  agent: AgentVersion,
  params: Asking['params'],
): Promise<Card> {
  const card = cardOf(config, agent, params);
  // Without an address of the platform nobody finds its keys.
  if (cardKey === undefined || config.baseUrl === undefined) return card;
  return { ...card, signatures: [cardSignature(card, await cardKey(), config.baseUrl)] };
}

/** The same for all signatures of one card by one key: each has random numbers. */
function etagOf(card: Card): string {
  const headers = card.signatures?.map((each) => each.protected);
  const content = JSON.stringify({ ...card, signatures: headers });
  return `"${hash('sha256', content, 'base64url').slice(0, 27)}"`;
}

/** Answers with a card that clients may keep for a while, or says that the one they have is right. */
export async function shownCard(
  deps: Deps & CardDeps,
  caller: Caller | undefined,
  { params, request }: Pick<Asking, 'params' | 'request'>,
) {
  const agent = await findShown(deps, caller, params);
  const card = await signedCardOf(deps, agent, params);
  const etag = etagOf(card);
  const isPublic = agent.definition.is_public;
  const headers = {
    etag: card.signatures ? `W/${etag}` : etag,
    vary: 'authorization',
    'cache-control': isPublic ? `public, max-age=${PUBLIC_SECONDS}` : 'private, no-cache',
  };
  const known = (request.headers.get('if-none-match') ?? '').split(',').map((each) => each.trim().replace(/^W\//, ''));
  const isKnown = known.includes(etag) || known.includes('*');
  const content = Buffer.from(isKnown ? '' : JSON.stringify(card));
  return { status: isKnown ? 304 : 200, raw: { contentType: 'application/a2a+json', content }, headers } as const;
}

/** Answers with the keys by which clients verify cards. Throws NOT_FOUND. */
export async function shownKeys({ cardKey }: CardDeps) {
  if (cardKey === undefined)
    throw new PlatformError('NOT_FOUND', 'This platform does not sign the cards of its agents.');
  const headers = { 'cache-control': `public, max-age=${PUBLIC_SECONDS}` };
  const keys = [publishedKeyOf(await cardKey())];
  return { status: 200 as const, body: { keys }, headers };
}
