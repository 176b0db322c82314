import type { Template } from './templates.ts';

/** Returns the ids of the resources in the same template that a resource refers to or depends on. */
function dependenciesOf(template: Template, id: string): string[] {
  const { Properties, DependsOn = [] } = template.Resources[id]!;
  const named = [...DependsOn, ...referencesIn(Properties)];
  return [...new Set(named)].filter((name) => name !== id && name in template.Resources);
}

function referencesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(referencesIn);
  return Object.entries(value).flatMap(([key, member]) => {
    if (key === 'Ref') return [String(member)];
    if (key === 'Fn::GetAtt') return [[member].flat()[0].split('.')[0]];
    if (key !== 'Fn::Sub') return referencesIn(member);
    const [text, values = {}] = [member].flat();
    const placeholders = [...text.matchAll(/\$\{([\w:]+)/g)].map(([, name]) => name);
    return [...placeholders.filter((name) => !(name in values)), ...referencesIn(values)];
  });
}

/**
 * Returns the resources that are guaranteed to exist when CloudFormation creates this one: its direct and indirect
 * dependencies. CloudFormation may create the others at the same time or later.
 */
export function createdBefore(template: Template, id: string): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (name: string): void => {
    for (const needed of dependenciesOf(template, name)) {
      if (found.has(needed)) continue;
      found.add(needed);
      visit(needed);
    }
  };
  visit(id);
  return found;
}

/**
 * Returns an order in which CloudFormation may create the resources of a template: the reverse of the template's order
 * as far as dependencies allow, so that no test relies on the order of the template. Throws for a circular dependency.
 */
export function creationOrder(template: Template): string[] {
  const order = new Set<string>();
  const visit = (id: string, path: readonly string[]): void => {
    if (path.includes(id)) throw new Error(`these wait for each other: ${[...path, id].join(', ')}`);
    if (order.has(id)) return;
    for (const needed of dependenciesOf(template, id)) visit(needed, [...path, id]);
    order.add(id);
  };
  for (const id of Object.keys(template.Resources).reverse()) visit(id, []);
  return [...order];
}
