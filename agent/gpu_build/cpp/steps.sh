# Runs the steps of one nvcc command, host and device front end in parallel: sh steps.sh ID NVCC ARGUMENT...
# nvcc itself runs these steps in sequence, although they share only the module's id. If nvcc lists other steps
# than the seven known ones, the script runs nvcc itself.
id=$1
shift
"$@" --dryrun --keep --keep-dir . 2> steps.txt || exec "$@"
sed -n 's/^#\$ //p' steps.txt > lines.txt
first=$(grep -n -m 1 ' -E ' lines.txt | cut -d : -f 1)
step() { sed -n "$((first + $1))s/ --gen_module_id_file / /p" lines.txt; }
plain() { sed -n "$((first + $1))p" lines.txt; }
known() { plain "$1" | grep -q -- "$2"; }
[ -n "$first" ] && known 0 ' -E ' && known 1 '^cudafe++ .* --gen_module_id_file ' && known 2 ' -E ' &&
  known 3 '/cicc" ' && known 4 '^ptxas ' && known 5 '^fatbinary ' && known 6 ' -c ' &&
  [ "$(wc -l < lines.txt)" -eq "$((first + 6))" ] || exec "$@"
eval "$(grep '^_HERE_=' lines.txt)"
for name in TOP CICC_PATH NVVMIR_LIBRARY_DIR LD_LIBRARY_PATH PATH; do eval "$(grep "^$name=" lines.txt)"; done
export PATH LD_LIBRARY_PATH NVVMIR_LIBRARY_DIR
module=$(plain 1 | sed 's/.*--module_id_file_name "\([^"]*\)".*/\1/')
printf '%s' "$id" > "$module"
(eval "$(plain 2)" && eval "$(plain 3)" && eval "$(plain 4)" && eval "$(plain 5)") > device.txt 2>&1 &
eval "$(plain 0)" && eval "$(step 1)"
host=$?
wait $!
device=$?
cat device.txt
[ $host -eq 0 ] && [ $device -eq 0 ] || exit 1
eval "$(plain 6)"
