import { classes } from './classes.ts';

/** Loading skeleton, shown after a delay so that fast responses do not flicker. */
export function Loading({ lines = 4, label = 'Loading' }: { readonly lines?: number; readonly label?: string }) {
  return (
    <div role="status" aria-label={label} className="flex flex-col gap-2 py-2 animate-[appear_.2s_.25s_backwards]">
      {Array.from({ length: lines }, (_, index) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: they are all the same.
          key={index}
          className={classes('h-4 animate-pulse rounded bg-hover', index === lines - 1 ? 'w-1/2' : 'w-full')}
        />
      ))}
    </div>
  );
}
