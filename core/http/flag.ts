import * as z from 'zod';

const TRUTHY = ['true', '1', 'yes', 'on', 'y', 'enabled'];
const FALSY = ['false', '0', 'no', 'off', 'n', 'disabled'];

/**
 * A boolean query parameter. The metadata lists its values, which Zod describes as any text in the OpenAPI document.
 */
export const flag = z.stringbool({ truthy: TRUTHY, falsy: FALSY }).meta({ enum: [...TRUTHY, ...FALSY] });
