import type { FakeMicrovms } from '#test/helpers/fake-microvms.ts';
import { withDependent } from './dependent-actions.ts';
import type { Ask } from './iam.ts';
import type { WireRequest } from './wire.ts';

/** Returns the rights that a request to the MicroVMs API needs: an action on a VM requires the right on its image. */
export const microvmReader =
  (microvms: FakeMicrovms) =>
  ({ method, url, body }: WireRequest): Ask[] => {
    const [, , , id, part] = url.pathname.split('/').map(decodeURIComponent);
    if (id === undefined && method === 'GET') return [{ action: 'lambda:ListMicrovms', resource: '*' }];
    if (id === undefined) {
      const input = JSON.parse(`${body}`);
      const { imageIdentifier, ingressNetworkConnectors = [], egressNetworkConnectors = [] } = input;
      const connectors: string[] = [...ingressNetworkConnectors, ...egressNetworkConnectors];
      return [
        ...withDependent([{ action: 'lambda:RunMicrovm', resource: imageIdentifier }], input),
        ...connectors.map((resource) => ({ action: 'lambda:PassNetworkConnector', resource })),
      ];
    }
    const verbs: Readonly<Record<string, string>> = { GET: 'GetMicrovm', DELETE: 'TerminateMicrovm' };
    const action = part === 'auth-token' ? 'CreateMicrovmAuthToken' : verbs[method];
    return [{ action: `lambda:${action}`, resource: microvms.vms.find((vm) => vm.id === id)?.imageArn ?? '*' }];
  };
