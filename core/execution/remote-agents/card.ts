import * as z from 'zod';
import { toolServerUrlProblem } from '#core/outbound/tool-server-url.ts';
import type { Deps } from '#core/ports/deps.ts';
import { ToolServerFailure } from '#core/ports/tool-servers.ts';

/** The members of a card that a caller needs (A2A 1.0, section 4.4). */
const card = z.looseObject({
  name: z.string().max(500),
  description: z.string().default(''),
  supportedInterfaces: z
    .array(z.looseObject({ url: z.string(), protocolBinding: z.string(), protocolVersion: z.string().default('1.0') }))
    .max(50),
  skills: z
    .array(z.looseObject({ name: z.string(), description: z.string().default('') }))
    .max(200)
    .default([]),
});

/** An agent of others, by its card: its texts are untrusted. */
export interface RemoteAgent {
  readonly name: string;
  readonly description: string;
  readonly url: string;
  readonly binding: 'JSONRPC' | 'HTTP+JSON';
}

/**
 * Reads a card. Throws {@link ToolServerFailure} for one that is none, that has no interface of this version, or whose interfaces
 * are all on another host: they would get the secrets that its author gave for this one.
 */
export function agentOf(
  config: Pick<Deps['config'], 'outboundHosts' | 'sandboxEgress'>,
  url: string,
  value: unknown,
): RemoteAgent {
  const { success, data, error } = card.safeParse(value);
  if (!success) {
    const { path, message } = error.issues[0]!;
    throw new ToolServerFailure(`its card is wrong at ${path.join('.') || 'its top'}: ${message}`);
  }
  const { origin } = new URL(url);
  const usable = data.supportedInterfaces.flatMap(({ url: address, protocolBinding: binding, protocolVersion }) =>
    /^1\.\d+(\.\d+)?$/.test(protocolVersion) && (binding === 'JSONRPC' || binding === 'HTTP+JSON')
      ? [{ url: address, binding } as const]
      : [],
  );
  if (usable.length === 0) {
    throw new ToolServerFailure('its card has no interface of A2A 1.0 with the binding JSONRPC or HTTP+JSON');
  }
  const found = usable.find((each) => URL.parse(each.url)?.origin === origin);
  if (found === undefined) throw new ToolServerFailure('its card names addresses of another host than its own');
  const problem = toolServerUrlProblem(config, found.url);
  if (problem !== undefined) throw new ToolServerFailure(problem);
  const skills = data.skills.map((skill) => `${skill.name}: ${skill.description}`).join('\n');
  return { name: data.name, description: `${data.description}\n${skills}`.trim(), ...found };
}
