import { parseRelease, tryRelease } from '#aws/release/release.ts';
import { customResource } from '../custom-resource.ts';
import { host } from '../host.ts';

const onChange = ({ ResourceProperties }: { readonly ResourceProperties: unknown }): Promise<void> =>
  tryRelease(parseRelease(ResourceProperties), host.clock);

/** Runs between a new deployment of the API and the update of its stage: an error rolls the stack back. */
export const handler = customResource({ onCreate: onChange, onUpdate: onChange });
