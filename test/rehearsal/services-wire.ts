import { requestTags, withDependent } from './dependent-actions.ts';
import type { Ask } from './iam.ts';
import { jsonService, type Reader, regional } from './wire.ts';

// biome-ignore lint/suspicious/noExplicitAny: the input of any action.
type Input = any;

const logGroup = (name: string) => regional('logs', `log-group:${name}`);

/** Rights that the service keeper's requests to services other than ECS need. */
export const SERVICES_WIRE: Readonly<Record<string, Reader>> = {
  logs: jsonService('logs', (action, { logGroupName }) => [
    { action, resource: logGroupName === undefined ? '*' : logGroup(logGroupName) },
  ]),
  'application-autoscaling': jsonService('application-autoscaling', (action, { ServiceNamespace }) => [
    {
      action,
      resource: action.startsWith('Describe') ? '*' : regional('application-autoscaling', 'scalable-target/x'),
      context: { 'application-autoscaling:service-namespace': [ServiceNamespace] },
    },
  ]),
  elasticloadbalancing: ({ body }) => {
    const form = new URLSearchParams(body.toString());
    const action = form.get('Action')!;
    const tags = [...form.keys()]
      .filter((name) => /^Tags\.member\.\d+\.Key$/.test(name))
      .map((name) => ({ Key: form.get(name)!, Value: form.get(name.replace('Key', 'Value')) ?? '' }));
    return withDependent([balancerAsk(action, form, tags)], { tags });
  },
};

/** Tags of target groups, by name. */
const groupTags = new Map<string, Record<string, string[]>>();

function balancerAsk(name: string, form: URLSearchParams, tags: Input): Ask {
  const action = `elasticloadbalancing:${name}`;
  switch (name) {
    case 'CreateTargetGroup': {
      const group = form.get('Name')!;
      const entries = tags.map(({ Key, Value }: Input) => [`aws:ResourceTag/${Key}`, [Value]]);
      groupTags.set(group, Object.fromEntries(entries));
      const resource = regional('elasticloadbalancing', `targetgroup/${group}/x`);
      return { action, resource, context: requestTags(tags) };
    }
    case 'ModifyTargetGroupAttributes':
    case 'DeleteTargetGroup': {
      const resource = form.get('TargetGroupArn')!;
      return { action, resource, context: groupTags.get(resource.split('/')[1]!) };
    }
    case 'CreateRule':
      return { action, resource: form.get('ListenerArn')!, context: requestTags(tags) };
    case 'DeleteRule':
      return { action, resource: form.get('RuleArn')! };
    default:
      return { action, resource: '*' };
  }
}
