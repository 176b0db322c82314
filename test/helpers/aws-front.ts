import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** An answer in AWS's JSON; `lost` drops the connection after the emulator has executed the action. */
export type FrontAnswer = { readonly status?: number; readonly body: object } | 'lost' | undefined;

/** Handler of an action, which is the part of `x-amz-target` after its dot. */
// biome-ignore lint/suspicious/noExplicitAny: the input of any action.
export type FrontAction = (input: any) => FrontAnswer;

export const refusal = (__type: string, message: string): FrontAnswer => ({ status: 400, body: { __type, message } });

/**
 * Starts a proxy before an emulator that answers the actions in `actions` itself: those the emulator does not support,
 * or those a test overrides. `actions` may change at any time; an action that answers `undefined` is passed on.
 */
export async function startAwsFront(emulator: string) {
  const actions: Record<string, FrontAction> = {};
  /** Names of the requested actions, in order. */
  const requests: string[] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const [, action = ''] = String(request.headers['x-amz-target'] ?? '').split('.');
    if (action) requests.push(action);
    const answer = actions[action]?.(JSON.parse(body));
    if (answer !== undefined && answer !== 'lost') {
      const { status = 200, body } = answer;
      return void response
        .writeHead(status, { 'content-type': 'application/x-amz-json-1.1' })
        .end(JSON.stringify(body));
    }
    const headers = Object.entries(request.headers).filter(
      ([name]) => !/^(host|connection|content-length|transfer-encoding|expect)$/.test(name),
    );
    const passed = await fetch(emulator + request.url!, {
      method: request.method!,
      headers: headers as [string, string][],
      body,
    });
    const content = await passed.text();
    if (answer === 'lost') return void response.destroy();
    response.writeHead(passed.status, { 'content-type': passed.headers.get('content-type') ?? '' }).end(content);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    actions,
    requests,
    close(): void {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Ids of the default network that moto has in every Region. */
export async function defaultNetwork(emulator: string, region: string) {
  const authorization = `AWS4-HMAC-SHA256 Credential=test/20260101/${region}/ec2/aws4_request, SignedHeaders=host, Signature=0`;
  const idsOf = async (action: string, tag: string): Promise<string[]> => {
    const answer = await fetch(emulator, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/x-www-form-urlencoded' },
      body: `Action=${action}&Version=2016-11-15`,
    });
    const xml = await answer.text();
    return [...xml.matchAll(new RegExp(`<${tag}>([^<]+)</${tag}>`, 'g'))].map(([, id]) => id!);
  };
  const [[vpc], subnets, [group]] = await Promise.all([
    idsOf('DescribeVpcs', 'vpcId'),
    idsOf('DescribeSubnets', 'subnetId'),
    idsOf('DescribeSecurityGroups', 'groupId'),
  ]);
  return { vpc: vpc!, subnets: subnets.slice(0, 2), group: group! };
}
