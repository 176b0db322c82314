import type { FakeMicrovms } from '#test/helpers/fake-microvms.ts';
import { withDependent } from './dependent-actions.ts';
import type { Ask } from './iam.ts';
import type { WireRequest } from './wire.ts';

/** What requests to the API of Lambda MicroVMs ask for: what is done to a VM is a right on the image that it runs. */
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
